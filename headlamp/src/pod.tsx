/** The section on a pod's page: its policy, why it waits, and which nodes were refused when it was placed. */
import {
  NameValueTable,
  SectionBox,
  SimpleTable,
} from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import type { KubeObject } from '@kinvolk/headlamp-plugin/lib/k8s/cluster';
import Typography from '@mui/material/Typography';
import { usePage } from './evaluator';
import { PodDecision, PodNode, PodPage } from './pages';
import {
  AnswerNotes,
  Flaws,
  Heading,
  modeText,
  Moment,
  Name,
  NodeLink,
  PolicyLink,
  ReadingText,
  State,
  Values,
} from './parts';
import { useEvaluatorService } from './settings';

const POLICY_LABEL = 'telemetry-policy';
const GATE = 'plimsoll.io/gang';

export interface PodObject {
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  spec?: { nodeName?: string; schedulingGates?: { name: string }[] };
}

/** Returns whether a pod names a policy or waits for its gang. Other pods have no section. */
export function concernsPlimsoll(pod: PodObject): boolean {
  const gates = pod.spec?.schedulingGates ?? [];
  return POLICY_LABEL in (pod.metadata.labels ?? {}) || gates.some(({ name }) => name === GATE);
}

export function PodSection({ resource }: { resource: KubeObject }) {
  const { namespace = '', name } = (resource.jsonData as PodObject).metadata;
  const evaluator = useEvaluatorService();
  const answer = usePage<PodPage>(evaluator, resource.cluster, ['pods', namespace, name]);
  const { page } = answer;
  return (
    <SectionBox title="Plimsoll">
      <AnswerNotes answer={answer} />
      {page && (
        <>
          <Flaws problems={page.policy?.problems} warnings={page.policy?.warnings} />
          <Facts page={page} />
          {page.past?.decision && <Decision decision={page.past.decision} />}
          <Nodes page={page} />
        </>
      )}
    </SectionBox>
  );
}

function Facts({ page }: { page: PodPage }) {
  const { summary, turnedAwayByPlimsoll, policy, gates = [], gang, gangMessage } = page;
  return (
    <NameValueTable
      rows={[
        { name: 'Turned away by Plimsoll', value: <TurnedAway answer={turnedAwayByPlimsoll} /> },
        { name: 'Why', value: <Name>{summary ?? ''}</Name>, hide: !summary },
        {
          name: 'Policy',
          value: policy ? (
            <>
              <PolicyLink policy={policy.name} />,{' '}
              {policy.applies ? modeText(policy.mode) : 'does not apply'}
              {policy.problem !== undefined && (
                <>
                  : <Name>{policy.problem}</Name>
                </>
              )}
            </>
          ) : (
            'none'
          ),
        },
        { name: 'Scheduling gates', value: <Name>{gates.join(', ')}</Name>, hide: !gates.length },
        {
          name: 'Gang',
          value: <Name>{[gang, gangMessage].filter(Boolean).join(': ')}</Name>,
          hide: !gang,
        },
        {
          name: 'Nominated node',
          value: <Name>{page.nominatedNode ?? ''}</Name>,
          hide: !page.nominatedNode,
        },
        {
          name: 'kube-scheduler',
          value: <Name>{page.schedulerMessage ?? page.schedulerReason ?? ''}</Name>,
          hide: !page.schedulerReason,
        },
      ]}
    />
  );
}

function TurnedAway({ answer }: { answer: boolean | null | undefined }) {
  if (answer === null || answer === undefined) {
    return <State status="">unknown</State>;
  }
  return answer ? <State status="error">yes</State> : <State status="success">no</State>;
}

function Decision({ decision }: { decision: PodDecision }) {
  const { mode, refused, candidates, refusedNodes, ranked = [], chosen, chosenAt } = decision;
  const rows = [
    ...refusedNodes.map(one => ({
      node: one.node,
      result: (
        <>
          <State status="error">refused</State> <Name>{one.reason}</Name>
        </>
      ),
      readings: one.readings,
    })),
    ...ranked.map(one => ({
      node: one.node,
      result: <State status="success">ranked {one.score} of 10</State>,
      readings: { [decision.rankedBy ?? '']: one.reading },
    })),
  ];
  type Row = (typeof rows)[number];
  return (
    <>
      <Heading>Last decision</Heading>
      <Typography variant="body2">
        At <Moment at={decision.at} />, <PolicyLink policy={decision.policy} />{' '}
        {mode === 'observe' ? '(observed) would have refused' : 'refused'} {refused} of {candidates}{' '}
        nodes that kube-scheduler asked about
        {chosen !== undefined && (
          <>
            ; the pod was bound to <NodeLink node={chosen} />
            {chosenAt !== undefined && (
              <>
                {' '}
                at <Moment at={chosenAt} />
              </>
            )}
          </>
        )}
        .{refused > refusedNodes.length && ` ${refused - refusedNodes.length} are not listed.`}
      </Typography>
      <SimpleTable
        columns={[
          { label: 'Node', getter: ({ node }: Row) => <NodeLink node={node} /> },
          { label: 'Result', getter: ({ result }: Row) => result },
          { label: 'Readings then', getter: ({ readings }: Row) => <Values readings={readings} /> },
        ]}
        data={rows}
      />
    </>
  );
}

function Nodes({ page }: { page: PodPage }) {
  const rows = Object.entries(page.nodes).map(([node, found]) => ({ node, ...found }));
  type Row = (typeof rows)[number];
  return (
    <>
      <Heading>Nodes now</Heading>
      <SimpleTable
        columns={[
          { label: 'Node', getter: ({ node }: Row) => <NodeLink node={node} /> },
          { label: 'Result', getter: (row: Row) => <Result found={row} /> },
          {
            label: 'Readings',
            gridTemplate: 1.5,
            getter: ({ rules = [] }: Row) =>
              rules.map(rule => (
                <div key={rule.rule}>
                  <Name>{rule.rule}</Name>:{' '}
                  <ReadingText
                    reading={rule}
                    metric={rule.rule.split(' ')[0] ?? ''}
                    target={rule.targetValue}
                  />
                </div>
              )),
          },
        ]}
        data={rows}
        emptyMessage="No node."
      />
      {page.window && page.window.found > rows.length && (
        <Typography variant="body2">
          {page.window.found - rows.length} more are on the evaluator's own page.
        </Typography>
      )}
    </>
  );
}

function Result({ found }: { found: PodNode }) {
  const { obstacles = [], refused, awaited, refusedBy = [], wouldRefuse } = found;
  if (obstacles.length > 0) {
    return (
      <>
        <State status="">not feasible</State> <Name>{obstacles.join('; ')}</Name>
      </>
    );
  }
  if (refused) {
    return (
      <>
        <State status="error">refused</State> <Name>{refused}</Name>
      </>
    );
  }
  if (awaited) {
    return <State status="">no report yet</State>;
  }
  if (refusedBy.length > 0) {
    return <State status="error">refused by {refusedBy.join(', ')}</State>;
  }
  if (wouldRefuse) {
    return (
      <>
        <State status="">would be refused</State> <Name>{wouldRefuse}</Name>
      </>
    );
  }
  return <State status="success">permitted</State>;
}
