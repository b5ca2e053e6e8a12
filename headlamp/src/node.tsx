/** The section on a node's page: what policies make of it, and what Plimsoll wrote to it. */
import {
  NameValueTable,
  SectionBox,
  SimpleTable,
} from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import type { KubeObject } from '@kinvolk/headlamp-plugin/lib/k8s/cluster';
import Typography from '@mui/material/Typography';
import { usePage } from './evaluator';
import { NodePage, NodePolicy } from './pages';
import {
  AnswerNotes,
  Heading,
  History,
  Listed,
  modeText,
  Moment,
  Name,
  NodeState,
  PolicyLink,
  ReadingText,
  State,
  timersText,
  violatedFor,
} from './parts';
import { age } from './quantity';
import { useEvaluatorService } from './settings';

/** The field manager, and the prefix of taints and conditions. */
const MANAGER = 'plimsoll';
const PREFIX = 'plimsoll.io/';

export interface NodeObject {
  metadata: {
    name: string;
    labels?: Record<string, string>;
    managedFields?: { manager?: string; fieldsV1?: unknown }[];
  };
  spec?: { taints?: { key: string; value?: string; effect: string }[] };
  status?: {
    conditions?: { type: string; status: string; reason?: string; lastTransitionTime?: string }[];
  };
}

/** Returns what Plimsoll wrote to a node: labels by their field manager, taints and conditions by their prefix. */
export function writtenTo(node: NodeObject) {
  const applied = (node.metadata.managedFields ?? [])
    .filter(({ manager }) => manager === MANAGER)
    .flatMap(({ fieldsV1 }) => Object.keys(labelFields(fieldsV1)))
    .map(field => field.replace(/^f:/, ''));
  const own = new Set(applied);
  return {
    labels: Object.entries(node.metadata.labels ?? {}).filter(([key]) => own.has(key)),
    taints: (node.spec?.taints ?? []).filter(({ key }) => key.startsWith(PREFIX)),
    conditions: (node.status?.conditions ?? []).filter(({ type }) => type.startsWith(PREFIX)),
  };
}

function labelFields(fields: unknown): object {
  const metadata = (fields as Record<string, Record<string, object>> | undefined)?.['f:metadata'];
  return metadata?.['f:labels'] ?? {};
}

export function NodeSection({ resource }: { resource: KubeObject }) {
  const node: NodeObject = resource.jsonData;
  const evaluator = useEvaluatorService();
  const answer = usePage<NodePage>(evaluator, resource.cluster, ['nodes', node.metadata.name]);
  const { page } = answer;
  return (
    <SectionBox title="Plimsoll">
      <AnswerNotes answer={answer} />
      <Written node={node} scores={page?.written.memory ?? {}} />
      {page && (
        <>
          {Object.entries(page.policies).map(([policy, found]) => (
            <Policy key={policy} policy={policy} found={found} sources={page.sources} />
          ))}
          {Object.keys(page.policies).length === 0 && <Typography>No policy.</Typography>}
          <Problems page={page} />
          {page.past && <History past={page.past} />}
        </>
      )}
    </SectionBox>
  );
}

function Written(props: { node: NodeObject; scores: NodePage['written']['memory'] }) {
  const { labels, taints, conditions } = writtenTo(props.node);
  const scores = Object.entries(props.scores ?? {});
  return (
    <NameValueTable
      rows={[
        {
          name: 'Labels',
          value: (
            <Listed>
              {labels.map(([key, value]) => (
                <Name key={key}>{`${key}=${value}`}</Name>
              ))}
            </Listed>
          ),
        },
        {
          name: 'Taints',
          value: (
            <Listed>
              {taints.map(({ key, value = '', effect }) => (
                <Name key={`${key}:${effect}`}>{`${key}=${value}:${effect}`}</Name>
              ))}
            </Listed>
          ),
        },
        {
          name: 'Conditions',
          value: (
            <Listed>
              {conditions.map(({ type, status, reason = '', lastTransitionTime }) => (
                <span key={type}>
                  <Name>{`${type} ${status}, ${reason}`}</Name>
                  {lastTransitionTime && (
                    <>
                      {' '}
                      since <Moment at={lastTransitionTime} />
                    </>
                  )}
                </span>
              ))}
            </Listed>
          ),
        },
        {
          name: 'Scores of failures',
          value: (
            <Listed>
              {scores.map(([policy, { score, lastViolation }]) => (
                <span key={policy}>
                  <PolicyLink policy={policy} />: {score}, last violation{' '}
                  <Moment at={lastViolation} />
                </span>
              ))}
            </Listed>
          ),
          hide: scores.length === 0,
        },
      ]}
    />
  );
}

/** Strategies whose violations are faults; a rule of another one only holds. */
const COMPLIANCE = ['dontschedule', 'deschedule'];

function Policy(props: { policy: string; found: NodePolicy; sources: string[] }) {
  const { policy, found, sources } = props;
  const facts = [
    modeText(found.mode),
    violatedFor(found.violatedSeconds),
    timersText(found.timers),
  ];
  type Rule = NodePolicy['rules'][number];
  return (
    <>
      <Heading>
        <PolicyLink policy={policy} /> <NodeState state={found.state} />
      </Heading>
      <Typography variant="body2">{facts.filter(Boolean).join('; ')}</Typography>
      <SimpleTable
        columns={[
          { label: 'Rule', getter: ({ rule }: Rule) => <Name>{rule}</Name> },
          { label: 'Strategy', datum: 'strategy' },
          {
            label: 'Result',
            getter: (rule: Rule) => <Result rule={rule} awaited={found.awaited} />,
          },
          {
            label: 'Reading',
            getter: ({ metric, targetValue }: Rule) => (
              <ReadingText reading={found.readings[metric]} metric={metric} target={targetValue} />
            ),
          },
          {
            label: 'Age',
            getter: ({ metric }: Rule) => {
              const reading = found.readings[metric];
              return reading ? age(reading.ageSeconds) : '-';
            },
          },
          {
            label: 'Source',
            getter: ({ metric }: Rule) =>
              found.readings[metric]?.source ?? (sources.length === 1 ? sources[0] : '-'),
          },
        ]}
        data={found.rules}
        emptyMessage="No valid rule."
      />
    </>
  );
}

function Result(props: { rule: NodePolicy['rules'][number]; awaited: boolean }) {
  const { violated, strategy } = props.rule;
  if (violated === null) {
    return <>ranks</>;
  }
  if (violated) {
    return COMPLIANCE.includes(strategy) ? (
      <State status="error">violated</State>
    ) : (
      <State status="">holds</State>
    );
  }
  return props.awaited ? (
    <State status="">no verdict</State>
  ) : (
    <State status="success">not violated</State>
  );
}

/** Problems that the agent found, and its recording rules that fail. */
function Problems({ page }: { page: NodePage }) {
  const { problems = [], failingRules } = page;
  type Problem = NonNullable<NodePage['problems']>[number];
  type Rule = NodePage['failingRules']['rules'][number];
  return (
    <>
      {problems.length > 0 && (
        <>
          <Heading>Problems</Heading>
          <SimpleTable
            columns={[
              { label: 'Condition', getter: ({ type }: Problem) => <Name>{type}</Name> },
              {
                label: 'State',
                getter: ({ active }: Problem) =>
                  active ? (
                    <State status="error">problem</State>
                  ) : (
                    <State status="success">healthy</State>
                  ),
              },
              {
                label: 'Why',
                getter: ({ reason, message }: Problem) => <Name>{`${reason}: ${message}`}</Name>,
              },
              {
                label: 'Since',
                getter: ({ since }: Problem) => (since ? <Moment at={since} /> : '-'),
              },
            ]}
            data={problems}
          />
        </>
      )}
      {failingRules.rules.length > 0 && (
        <>
          <Heading>Failing recording rules</Heading>
          <SimpleTable
            columns={[
              {
                label: 'Rule',
                getter: ({ rule, file }: Rule) => <Name>{rule || file || 'the whole group'}</Name>,
              },
              { label: 'Group', getter: ({ group }: Rule) => <Name>{group}</Name> },
              { label: 'Error', getter: ({ message }: Rule) => <Name>{message}</Name> },
            ]}
            data={failingRules.rules}
          />
          {failingRules.more > 0 && (
            <Typography variant="body2">
              {failingRules.more} more are on the agent's page.
            </Typography>
          )}
        </>
      )}
    </>
  );
}
