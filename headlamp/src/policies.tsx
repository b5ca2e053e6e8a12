/** The list of TASPolicies, and the page of one: its status in the cluster, and what the evaluator makes of it now. */
import { K8s } from '@kinvolk/headlamp-plugin/lib';
import {
  ConditionsSection,
  DetailsGrid,
  ResourceListView,
  SectionBox,
  SimpleTable,
} from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import Alert from '@mui/material/Alert';
import Typography from '@mui/material/Typography';
import { useParams } from 'react-router-dom';
import { usePage } from './evaluator';
import { PolicyPage, PolicyRule } from './pages';
import {
  AnswerNotes,
  Flaws,
  Heading,
  History,
  Listed,
  modeText,
  Name,
  NodeLink,
  NodeState,
  PodLink,
  POLICY_ROUTE,
  ReadingText,
  State,
  timersText,
  violatedFor,
} from './parts';
import { useEvaluatorService } from './settings';

export const POLICIES_ROUTE = 'plimsoll-policies';

interface PolicyRuleSpec {
  metricname: string;
  operator: string;
  target?: number | string;
}

interface PolicyObject extends K8s.cluster.KubeObjectInterface {
  spec?: { strategies?: Record<string, { rules?: PolicyRuleSpec[] }> };
  /** Missing until the evaluator wrote it. */
  status?: {
    compliance?: string;
    message?: string;
    violatingNodes?: number;
    enforcement?: string;
    pods?: { following?: number; ignored?: number };
    conditions?: { type: string; status: string; reason?: string; message?: string }[];
  };
}

export class TASPolicy extends K8s.cluster.KubeObject<PolicyObject> {
  static kind = 'TASPolicy';
  static apiName = 'taspolicies';
  static apiVersion = 'telemetry.intel.com/v1alpha1';
  static isNamespaced = true;

  static get detailsRoute() {
    return POLICY_ROUTE;
  }

  static get listRoute() {
    return POLICIES_ROUTE;
  }

  get status(): NonNullable<PolicyObject['status']> {
    return this.jsonData.status ?? {};
  }

  /** The status of its condition `Valid`. */
  get valid(): string | undefined {
    return this.status.conditions?.find(({ type }) => type === 'Valid')?.status;
  }
}

export function PolicyList() {
  const [policies, error] = TASPolicy.useList();
  if (error?.status === 404) {
    return (
      <SectionBox title="TAS policies">
        <Alert severity="info">
          This cluster has no TASPolicies: install Plimsoll, whose manifests include the CRD
          (kubectl apply -k deploy).
        </Alert>
      </SectionBox>
    );
  }
  return (
    <ResourceListView
      title="TAS policies"
      id="plimsoll-policies"
      data={policies}
      errorMessage={error ? `The policies cannot be listed: ${error.message}` : null}
      columns={[
        'name',
        'namespace',
        {
          id: 'compliance',
          label: 'Compliance',
          getValue: ({ status }) => status.compliance ?? '',
          render: ({ status }) => <Compliance compliance={status.compliance} />,
        },
        number('violating', 'Violating nodes', ({ status }) => status.violatingNodes),
        {
          id: 'valid',
          label: 'Valid',
          getValue: ({ valid }) => valid ?? '',
          render: ({ valid }) =>
            valid === 'False' ? (
              <State status="error">no: see its conditions</State>
            ) : valid ? (
              'yes'
            ) : (
              '-'
            ),
        },
        { id: 'mode', label: 'Mode', getValue: ({ status }) => status.enforcement ?? '-' },
        number('pods', 'Pods', ({ status }) => status.pods?.following),
        number('ignored', 'Ignored pods', ({ status }) => status.pods?.ignored),
        'age',
      ]}
    />
  );
}

/** Returns a column of numbers, in which a missing one is `-` and comes first. */
function number(id: string, label: string, of: (policy: TASPolicy) => number | undefined) {
  return {
    id,
    label,
    getValue: (policy: TASPolicy) => of(policy) ?? -1,
    render: (policy: TASPolicy) => of(policy) ?? '-',
  };
}

function Compliance({ compliance }: { compliance?: string }) {
  switch (compliance) {
    case undefined:
      return <>no status yet</>;
    case 'Compliant':
      return <State status="success">{compliance}</State>;
    case 'Violated':
      return <State status="error">{compliance}</State>;
    default:
      return <State status="warning">{compliance}</State>;
  }
}

export function PolicyDetails() {
  const { namespace, name } = useParams<{ namespace: string; name: string }>();
  return (
    <DetailsGrid
      resourceType={TASPolicy}
      namespace={namespace}
      name={name}
      withEvents
      extraInfo={policy =>
        policy && [
          { name: 'Compliance', value: <Compliance compliance={policy.status.compliance} /> },
          { name: 'Message', value: <Name>{policy.status.message ?? '-'}</Name> },
          { name: 'Mode', value: policy.status.enforcement ?? '-' },
          {
            name: 'Pods',
            value: `${policy.status.pods?.following ?? '-'} follow it, ${
              policy.status.pods?.ignored ?? '-'
            } name it and are ignored`,
          },
        ]
      }
      extraSections={(policy: TASPolicy | null) =>
        policy
          ? [
              { id: 'plimsoll', section: <PolicySection policy={policy} /> },
              { id: 'conditions', section: <ConditionsSection resource={policy.jsonData} /> },
            ]
          : []
      }
    />
  );
}

function PolicySection({ policy }: { policy: TASPolicy }) {
  const { namespace = '', name } = policy.metadata;
  const evaluator = useEvaluatorService();
  const answer = usePage<PolicyPage>(evaluator, policy.cluster, ['policies', namespace, name]);
  const { page } = answer;
  return (
    <SectionBox title="Plimsoll">
      <AnswerNotes answer={answer} />
      {page ? (
        <>
          <Flaws problems={page.problems} warnings={page.warnings} />
          <Typography variant="body2">
            {modeText(page.enforcement.mode)}
            {page.enforcement.by !== undefined && `, by ${page.enforcement.by}`}
          </Typography>
          <Rules page={page} />
          <Nodes page={page} />
          <Pods page={page} />
          {page.past && <History past={page.past} />}
        </>
      ) : (
        <RulesOfSpec policy={policy} />
      )}
    </SectionBox>
  );
}

function Rules({ page }: { page: PolicyPage }) {
  const strategies = Object.entries(page.strategies);
  const rows = strategies.flatMap(([strategy, { rules }]) =>
    rules.map(rule => ({ strategy, rule }))
  );
  type Row = (typeof rows)[number];
  return (
    <>
      <Heading>Rules</Heading>
      {strategies.map(([strategy, { words }]) => (
        <Typography variant="body2" key={strategy}>
          {strategy}: {words}.
        </Typography>
      ))}
      {page.scheduleonmetric && (
        <Typography variant="body2">
          scheduleonmetric: <Name>{page.scheduleonmetric.words}</Name>;{' '}
          {page.scheduleonmetric.order}.
        </Typography>
      )}
      <SimpleTable
        columns={[
          { label: 'Strategy', datum: 'strategy' },
          { label: 'Rule', getter: ({ rule }: Row) => <Name>{rule.words}</Name> },
          { label: 'Nodes', getter: (row: Row) => <RuleNodes {...row} /> },
        ]}
        data={rows}
        emptyMessage="No valid rule."
      />
    </>
  );
}

/** How many names of nodes a rule shows. */
const FEW = 5;

function RuleNodes({ strategy, rule }: { strategy: string; rule: PolicyRule }) {
  const labels = strategy === 'labeling';
  const groups: [string, string[], number][] = [
    [labels ? 'holds' : 'violated', rule.broken, rule.brokenMore ?? 0],
    ['no reading', rule.missing ?? [], 0],
    ['pending', Object.keys(rule.pending ?? {}), 0],
    ['held back', rule.heldBack ?? [], 0],
    ['clearing', Object.keys(rule.clearing ?? {}), 0],
  ];
  const some = groups.filter(([, nodes]) => nodes.length > 0);
  if (some.length === 0) {
    return <>none</>;
  }
  return (
    <>
      {some.map(([word, nodes, more]) => {
        const left = nodes.length - FEW + more;
        return (
          <div key={word}>
            <State status={word === 'violated' ? 'error' : word === 'holds' ? '' : 'warning'}>
              {word}
            </State>{' '}
            on{' '}
            <Listed>
              {nodes.slice(0, FEW).map(node => (
                <NodeLink node={node} key={node} />
              ))}
            </Listed>
            {left > 0 && ` and ${left} more`}
          </div>
        );
      })}
    </>
  );
}

/** The rules as written, while the evaluator does not say what they match. */
function RulesOfSpec({ policy }: { policy: TASPolicy }) {
  const strategies = Object.entries(policy.jsonData.spec?.strategies ?? {});
  const rows = strategies.flatMap(([strategy, { rules = [] }]) =>
    rules.map(({ metricname, operator, target }) => ({
      strategy,
      rule: [metricname, operator, target].filter(part => part !== undefined).join(' '),
    }))
  );
  return (
    <SimpleTable
      columns={[
        { label: 'Strategy', datum: 'strategy' },
        { label: 'Rule', getter: ({ rule }: (typeof rows)[number]) => <Name>{rule}</Name> },
      ]}
      data={rows}
      emptyMessage="No rule."
    />
  );
}

function Nodes({ page }: { page: PolicyPage }) {
  const rows = Object.entries(page.nodes).map(([node, found]) => ({ node, ...found }));
  const counts = Object.entries(page.states).filter(([, count]) => count > 0);
  const scores = page.scheduleonmetric?.scores;
  type Row = (typeof rows)[number];
  return (
    <>
      <Heading>Nodes</Heading>
      <Typography variant="body2">
        {counts.map(([state, count]) => `${count} ${state}`).join(', ') || 'no nodes'}
      </Typography>
      <SimpleTable
        columns={[
          { label: 'Node', getter: ({ node }: Row) => <NodeLink node={node} /> },
          { label: 'State', getter: ({ state }: Row) => <NodeState state={state} /> },
          { label: 'Since', getter: (row: Row) => violatedFor(row.violatedSeconds) || '-' },
          {
            label: 'Timers',
            getter: ({ timers }: Row) => <Name>{timersText(timers) || '-'}</Name>,
          },
          {
            label: 'Readings',
            gridTemplate: 2,
            getter: ({ readings }: Row) =>
              Object.entries(readings).map(([metric, reading]) => (
                <div key={metric}>
                  <Name>{metric}</Name>: <ReadingText reading={reading} metric={metric} />
                </div>
              )),
          },
          ...(scores ? [{ label: 'Score', getter: ({ node }: Row) => scores[node] ?? '-' }] : []),
        ]}
        data={rows}
        emptyMessage="No node differs."
      />
      {page.window.found > rows.length && (
        <Typography variant="body2">
          {page.window.found - rows.length} more are on the evaluator's own page.
        </Typography>
      )}
    </>
  );
}

function Pods({ page }: { page: PolicyPage }) {
  type Row = PolicyPage['pods'][number];
  return (
    <>
      <Heading>Pods</Heading>
      <SimpleTable
        columns={[
          { label: 'Pod', getter: ({ pod }: Row) => <PodLink pod={pod} /> },
          { label: 'Phase', getter: ({ phase }: Row) => phase ?? 'unknown' },
          { label: 'Node', getter: ({ node }: Row) => (node ? <NodeLink node={node} /> : '-') },
          {
            label: 'kube-scheduler',
            getter: ({ schedulerMessage }: Row) => <Name>{schedulerMessage ?? '-'}</Name>,
          },
        ]}
        data={page.pods}
        emptyMessage="No living pod names this policy."
      />
      {(page.podsMore ?? 0) > 0 && (
        <Typography variant="body2">and {page.podsMore} more</Typography>
      )}
    </>
  );
}
