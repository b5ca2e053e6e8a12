/** What the plugin's pages and sections have in common. */
import { Link, SimpleTable, StatusLabel } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import Alert from '@mui/material/Alert';
import Box from '@mui/material/Box';
import { useTheme } from '@mui/material/styles';
import Typography from '@mui/material/Typography';
import React, { ReactNode } from 'react';
import { Answer, visible } from './evaluator';
import { HistoryRecord, Past, Reading, TimelineRow, Timer } from './pages';
import { age, readable } from './quantity';

export const POLICY_ROUTE = 'plimsoll-policy';

type Status = 'success' | 'warning' | 'error' | '';

/** States of a node under a policy: docs/pages.md. */
const NODE_STATES = new Map<string, Status>([
  ['violated', 'error'],
  ['clearing', 'warning'],
  ['heldback', 'warning'],
  ['pending', 'warning'],
  ['missing', 'warning'],
  ['clear', 'success'],
]);
const RECORD_KINDS = new Map<string, Status>([
  ['violated', 'error'],
  ['clearing', 'warning'],
  ['pending', 'warning'],
  ['cleared', 'success'],
  ['not written', 'error'],
  ['not evicted', 'warning'],
]);

/** A text that others chose: isolated, so that its writing direction does not reorder what stands beside it. */
export function Name({ children }: { children: string }) {
  return <bdi>{visible(children) as string}</bdi>;
}

/** A state, which the word says and the colour repeats. */
export function State({ status, children }: { status: Status; children: ReactNode }) {
  return <StatusLabel status={status}>{children}</StatusLabel>;
}

export function NodeState({ state }: { state: string }) {
  return <State status={NODE_STATES.get(state) ?? ''}>{state}</State>;
}

/** How a policy is enforced. */
export function modeText(mode: string | undefined): string {
  return mode?.toLowerCase() === 'observe' ? 'observed: nothing is changed' : 'enforced';
}

/** A time in the user's time zone, with UTC on hover. */
export function Moment({ at }: { at: string }) {
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) {
    return <Name>{at}</Name>;
  }
  return (
    <time dateTime={at} title={time.toISOString()}>
      {time.toLocaleString()}
    </time>
  );
}

/** Splits `<namespace>/<name>`. */
export function namespaced(text: string): { namespace: string; name: string } {
  const slash = text.indexOf('/');
  return { namespace: text.slice(0, Math.max(slash, 0)), name: text.slice(slash + 1) };
}

export function PolicyLink({ policy }: { policy: string }) {
  return (
    <Link routeName={POLICY_ROUTE} params={namespaced(policy)}>
      <Name>{policy}</Name>
    </Link>
  );
}

export function NodeLink({ node }: { node: string }) {
  return (
    <Link routeName="node" params={{ name: node }}>
      <Name>{node}</Name>
    </Link>
  );
}

export function PodLink({ pod }: { pod: string }) {
  return (
    <Link routeName="Pod" params={namespaced(pod)}>
      <Name>{pod}</Name>
    </Link>
  );
}

/** Texts or elements with commas between them; `none` if there are none. */
export function Listed({ children }: { children: ReactNode[] }) {
  if (children.length === 0) {
    return <>none</>;
  }
  return (
    <>
      {children.map((child, position) => (
        <React.Fragment key={position}>
          {position > 0 && ', '}
          {child}
        </React.Fragment>
      ))}
    </>
  );
}

/** A reading with its unit, and why it does not count. A missing one is no number. */
export function ReadingText(props: { reading?: Reading; metric: string; target?: number | null }) {
  const { reading, metric, target } = props;
  if (reading === undefined) {
    return <>-</>;
  }
  const { value, state, cause } = reading;
  const [word = '', ...why] = state.split(': ');
  return (
    <>
      {value !== null && `${readable(metric, value, target)} `}
      {state !== 'fresh' && (
        <>
          <State status={word === 'awaited' ? '' : 'warning'}>{word}</State>{' '}
          <Name>{why.join(': ')}</Name>
        </>
      )}
      {cause !== undefined && (
        <>
          (<Name>{cause}</Name>)
        </>
      )}
    </>
  );
}

/** Readings of a moment in the past. */
export function Values({ readings }: { readings: Record<string, number | string | null> }) {
  return (
    <Listed>
      {Object.entries(readings).map(([metric, value]) => (
        <React.Fragment key={metric}>
          <Name>{metric}</Name>: {value === null ? 'no reading' : readable(metric, value)}
        </React.Fragment>
      ))}
    </Listed>
  );
}

export function violatedFor(seconds: Record<string, number>): string {
  return Object.entries(seconds)
    .map(([strategy, one]) => `${strategy} for ${age(one)}`)
    .join(', ');
}

export function timersText(timers: Timer[]): string {
  return timers
    .map(({ timer, rule, leftSeconds }) => `${timer} of ${rule} ends in ${age(leftSeconds)}`)
    .join('; ');
}

/** Why there is no page or no newer one, what to do about it, what the evaluator waits for, and what is stopped. */
export function AnswerNotes({
  answer,
}: {
  answer: Answer<{ waitingFor?: string[]; notices?: string[] }>;
}) {
  const { page, readAt, error } = answer;
  const waitingFor = page?.waitingFor ?? [];
  return (
    <>
      {error && (
        <Alert severity="warning" sx={{ my: 1 }}>
          <Typography variant="body2">
            The evaluator did not answer: <Name>{error.message}</Name>
          </Typography>
          <Typography variant="body2">{error.advice}</Typography>
          {readAt && (
            <Typography variant="body2">
              Below is its answer of {readAt.toLocaleTimeString()}.
            </Typography>
          )}
        </Alert>
      )}
      {!error && !page && <Typography variant="body2">Asking the evaluator …</Typography>}
      {waitingFor.length > 0 && (
        <Alert severity="info" sx={{ my: 1 }}>
          Not ready: waiting for {waitingFor.join(', ')}.
        </Alert>
      )}
      {(page?.notices ?? []).map(text => (
        <Alert severity="warning" key={text} sx={{ my: 1 }}>
          <Name>{text}</Name>
        </Alert>
      ))}
    </>
  );
}

/** Problems and warnings of a policy, or of a pod's. */
export function Flaws({
  problems = [],
  warnings = [],
}: {
  problems?: string[];
  warnings?: string[];
}) {
  return (
    <>
      {problems.map(text => (
        <Alert severity="error" key={text} sx={{ my: 1 }}>
          <Name>{text}</Name>
        </Alert>
      ))}
      {warnings.map(text => (
        <Alert severity="warning" key={text} sx={{ my: 1 }}>
          <Name>{text}</Name>
        </Alert>
      ))}
    </>
  );
}

export function Heading({ children }: { children: ReactNode }) {
  return (
    <Typography variant="h6" component="h3" sx={{ mt: 2 }}>
      {children}
    </Typography>
  );
}

/** What changed lately: a timeline, and the newest records. */
export function History({ past }: { past: Past }) {
  const { timeline, by, records, completeSince, actions } = past;
  return (
    <>
      <Heading>History</Heading>
      {timeline.rows.length > 0 && (
        <>
          <SimpleTable
            columns={[
              {
                label: by === 'node' ? 'Node' : 'Policy',
                getter: (row: TimelineRow) =>
                  by === 'node' ? <NodeLink node={row.name} /> : <PolicyLink policy={row.name} />,
              },
              {
                label: 'Last hour',
                gridTemplate: 3,
                getter: (row: TimelineRow) => <Strip row={row} columns={timeline.columns} />,
              },
              { label: 'Changes', datum: 'transitions' },
            ]}
            data={timeline.rows}
          />
          {timeline.rowsMore > 0 && (
            <Typography variant="body2">and {timeline.rowsMore} more</Typography>
          )}
        </>
      )}
      <SimpleTable
        columns={[
          { label: 'Time', getter: (record: HistoryRecord) => <Moment at={record.at} /> },
          {
            label: 'What',
            getter: ({ kind, strategy }: HistoryRecord) => (
              <>
                {strategy === 'labeling' ? (
                  <State status="">{kind === 'violated' ? 'holds' : kind}</State>
                ) : (
                  <State status={RECORD_KINDS.get(kind) ?? ''}>{kind}</State>
                )}
                {strategy !== undefined && ` (${strategy})`}
              </>
            ),
          },
          {
            label: 'Policy',
            getter: ({ policy, mode }: HistoryRecord) => (
              <>
                {policy !== undefined && <PolicyLink policy={policy} />}
                {mode === 'observe' && ', observed'}
              </>
            ),
          },
          {
            label: 'Node or pod',
            getter: ({ node, pod }: HistoryRecord) => (
              <>
                {pod !== undefined && <PodLink pod={pod} />}
                {pod !== undefined && node !== undefined && ' on '}
                {node !== undefined && <NodeLink node={node} />}
              </>
            ),
          },
          { label: 'Why', getter: (record: HistoryRecord) => <Why record={record} /> },
        ]}
        data={records}
        emptyMessage="Nothing changed."
      />
      <Typography variant="body2">
        {actions && (
          <>
            Actions of all replicas are complete since <Moment at={actions.since} />.{' '}
          </>
        )}
        Transitions and pods are complete since <Moment at={completeSince} />, as one replica saw
        them.
      </Typography>
      {actions?.problem && (
        <Typography variant="body2">
          Since <Moment at={actions.problemSince ?? ''} />, {actions.problem}.
        </Typography>
      )}
    </>
  );
}

function Why({ record }: { record: HistoryRecord }) {
  const { rule, metric, limit, reading, text, why } = record;
  const read =
    reading === null || reading === undefined
      ? 'no reading'
      : readable(metric ?? '', reading, limit);
  return (
    <>
      {rule !== undefined && (
        <>
          <Name>{rule}</Name>: {read}
        </>
      )}
      {text !== undefined && <Name>{text}</Name>}
      {why !== undefined && why !== 'reading' && ` (${why})`}
    </>
  );
}

/** Top and height of a phase in a strip 12 high, so that it is not told by its colour alone. */
const PHASES: [string, number, number][] = [
  ['violated', 0, 12],
  ['clearing', 2, 10],
  ['pending', 4, 8],
];

/** One node or policy over an interval, without the time in which it was clear. */
function Strip({ row, columns }: { row: TimelineRow; columns: number }) {
  const { error, warning, info } = useTheme().palette;
  const colours = new Map([
    ['violated', error.main],
    ['clearing', warning.main],
    ['pending', info.main],
  ]);
  const share = `in violation ${Math.round(100 * row.violatedShare)} % of the time; now ${row.now}`;
  return (
    <Box
      component="svg"
      viewBox={`0 0 ${columns} 12`}
      preserveAspectRatio="none"
      role="img"
      aria-label={share}
      sx={{ width: '100%', height: 12, border: 1, borderColor: 'divider' }}
    >
      {PHASES.map(([phase, top, height]) => (
        <path
          key={phase}
          fill={colours.get(phase)}
          d={row.runs
            .filter(([, , found]) => found === phase)
            .map(([begin, width]) => `M${begin} ${top}h${width}v${height}h-${width}z`)
            .join('')}
        />
      ))}
    </Box>
  );
}
