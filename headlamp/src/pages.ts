/**
 * The evaluator's pages as JSON: docs/pages.md.
 *
 * recorded/ has answers of a sandbox, which tests/headlamp compares with what it answers today.
 */

export interface Reading {
  /** Null without a single value; infinities and NaN are text. */
  value: number | string | null;
  ageSeconds: number | null;
  /** `fresh`, or why the reading does not count. */
  state: string;
  /** Missing if there is one source. */
  source?: string;
  /** The device behind it. */
  cause?: string;
}

export interface Timer {
  strategy: string;
  /** `for` or `clearAfter`. */
  timer: string;
  rule: string;
  leftSeconds: number;
}

/** A record of the history: docs/history.md. */
export interface HistoryRecord {
  number: number;
  at: string;
  kind: string;
  policy?: string;
  node?: string;
  pod?: string;
  mode?: string;
  strategy?: string;
  rule?: string;
  metric?: string;
  limit?: number | null;
  reading?: number | string | null;
  text?: string;
  why?: string;
}

export interface TimelineRow {
  name: string;
  transitions: number;
  now: string;
  /** Share of the interval in violation, 0 to 1. */
  violatedShare: number;
  /** First column, columns, phase. */
  runs: [number, number, string][];
}

export interface Past {
  timeline: {
    since: string;
    until: string;
    columns: number;
    rows: TimelineRow[];
    rowsMore: number;
  };
  by: 'node' | 'policy';
  /** The newest ones. */
  records: HistoryRecord[];
  completeSince: string;
}

export interface Page {
  /** What the replica waits for until it is ready. */
  waitingFor?: string[];
}

export interface NodePage extends Page {
  node: string;
  labels: Record<string, string>;
  sources: string[];
  written: { memory: Record<string, { score: number; lastViolation: string }> };
  failingRules: {
    rules: { rule: string; group: string; file: string; message: string }[];
    more: number;
  };
  problems?: {
    type: string;
    active: boolean;
    reason: string;
    message: string;
    since: string | null;
  }[];
  policies: Record<string, NodePolicy>;
  /** Missing with --no-history. */
  past?: Past;
}

/** What one policy makes of a node. */
export interface NodePolicy {
  state: string;
  mode: string;
  violatedSeconds: Record<string, number>;
  timers: Timer[];
  awaited: boolean;
  rules: {
    strategy: string;
    rule: string;
    metric: string;
    /** Null for a rule that ranks. */
    targetValue: number | null;
    violated: boolean | null;
  }[];
  readings: Record<string, Reading>;
}

export interface PolicyPage extends Page {
  policy: string;
  enforcement: { mode: string; by?: string };
  problems: string[];
  warnings: string[];
  strategies: Record<string, { words: string; rules: PolicyRule[] }>;
  scheduleonmetric?: { words: string; order: string; scores: Record<string, number> };
  /** Nodes by state, also those with none. */
  states: Record<string, number>;
  /** How many nodes the page has, and how many there are. */
  window: { found: number; total: number };
  pods: {
    pod: string;
    phase: string | null;
    node?: string | null;
    schedulerMessage?: string | null;
  }[];
  podsMore?: number;
  nodes: Record<
    string,
    {
      state: string;
      violatedSeconds: Record<string, number>;
      timers: Timer[];
      readings: Record<string, Reading>;
    }
  >;
  past?: Past;
}

export interface PolicyRule {
  words: string;
  /** Nodes on which the rule holds. */
  broken: string[];
  /** How many more there are. */
  brokenMore?: number;
  /** Seconds until `for` ends, by node. */
  pending?: Record<string, number>;
  clearing?: Record<string, number>;
  missing?: string[];
  heldBack?: string[];
}

export interface PodPage extends Page {
  /** Missing, like the other fields, if only scorers know the pod. */
  pod?: string;
  summary?: string;
  /** Null: unknown. */
  turnedAwayByPlimsoll?: boolean | null;
  node?: string | null;
  policy?: {
    name: string;
    applies: boolean;
    mode?: string;
    problem?: string;
    problems?: string[];
    warnings?: string[];
  } | null;
  gates?: string[];
  gang?: string;
  gangMessage?: string;
  schedulerReason?: string | null;
  schedulerMessage?: string | null;
  window?: { found: number; total: number };
  nodes: Record<string, PodNode>;
  past?: { decision: PodDecision | null };
}

/** What keeps a pod off a node, if anything. */
export interface PodNode {
  obstacles?: string[];
  refused?: string | null;
  /** Of an observed policy. */
  wouldRefuse?: string;
  awaited?: boolean;
  /** Scorers. */
  refusedBy?: string[];
  rules?: ({ rule: string; targetValue: number; violated: boolean } & Reading)[];
  score?: number;
}

/** The last answer to kube-scheduler about a pod, with the readings of that moment. */
export interface PodDecision {
  at: string;
  policy: string;
  mode: string;
  candidates: number;
  refused: number;
  refusedNodes: {
    node: string;
    reason: string;
    readings: Record<string, number | string | null>;
  }[];
  rankedBy?: string;
  ranked?: { node: string; score: number; reading: number | string | null }[];
  chosen?: string;
  chosenAt?: string;
}
