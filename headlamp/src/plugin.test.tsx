import store from '@kinvolk/headlamp-plugin/lib/redux/stores/store';
import { cleanup, fireEvent, screen, waitFor, within } from '@testing-library/react';
import { vi } from 'vitest';
import { NodeSection, writtenTo } from './node';
import { concernsPlimsoll, PodSection } from './pod';
import { PolicyDetails, PolicyList } from './policies';
import { Settings } from './settings';
import { nodeObject, podObject, POLICIES, PROXY, recorded, serve, show } from './testing/headlamp';

const NODE_PAGE = `${PROXY}/nodes/node-a.json`;
const POLICY_PAGE = `${PROXY}/policies/shop/responsive.json`;
const POD_PAGE = `${PROXY}/pods/shop/web-2.json`;
const POLICY = '/apis/telemetry.intel.com/v1alpha1/namespaces/shop/taspolicies/responsive';
const DOWN = { status: 503, body: { kind: 'Status', message: 'no endpoints available' } };

afterEach(cleanup);

function row(text: string | RegExp): HTMLElement {
  const found = screen.getAllByText(text)[0]!.closest('tr');
  expect(found).not.toBeNull();
  return found!;
}

function showPolicy() {
  show(
    <PolicyDetails />,
    '/plimsoll/policies/shop/responsive',
    '/plimsoll/policies/:namespace/:name'
  );
}

test('entries are registered once', () => {
  const { routes, sidebar, detailsViewSection } = store.getState() as any;
  expect(Object.keys(routes.routes)).toEqual([
    '/plimsoll/policies',
    '/plimsoll/policies/:namespace/:name',
  ]);
  expect(sidebar.entries['plimsoll-policies'].url).toBe('/plimsoll/policies');
  expect(detailsViewSection.detailsViewSections).toHaveLength(1);
});

describe('node', () => {
  test('shows rules, readings, what was written, and what changed', async () => {
    serve();
    show(<NodeSection resource={nodeObject()} />);
    await screen.findByText('Rule');
    expect(within(row('disk_wait_ratio GreaterThan 30')).getByText('violated')).toBeVisible();
    expect(row('disk_wait_ratio GreaterThan 30')).toHaveTextContent('61');
    expect(row('free_bytes LessThan 8Gi')).toHaveTextContent('holds3.26 GiB');
    expect(row('cpu_pressure_ratio LessThan 0')).toHaveTextContent('ranks');
    expect(
      screen.getByText('plimsoll.io/shop.responsive=violating:PreferNoSchedule')
    ).toBeVisible();
    expect(screen.getByText('telemetry.aware.scheduling.responsive/memory=small')).toBeVisible();
    expect(screen.getByText(/^plimsoll.io\/Responsive True/)).toBeVisible();
    expect(
      screen.getByRole('img', { name: /in violation \d+ % of the time; now violated/ })
    ).toBeVisible();
    expect(screen.getAllByRole('link', { name: 'shop/responsive' })[0]).toHaveAttribute(
      'href',
      '/c/sandbox/plimsoll/policies/shop/responsive'
    );
  });

  test('without the evaluator shows what the cluster has, and what to do', async () => {
    serve({ [NODE_PAGE]: DOWN });
    show(<NodeSection resource={nodeObject()} />);
    expect(await screen.findByText(/kubectl -n plimsoll get pods/)).toBeVisible();
    expect(screen.getByText('telemetry.aware.scheduling.responsive/memory=small')).toBeVisible();
    expect(screen.queryByText('Rule')).toBeNull();
  });

  test('with a failed refresh keeps the last answer, and says so', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldAdvanceTime: true });
    serve();
    show(<NodeSection resource={nodeObject()} />);
    await screen.findByText('Rule');
    serve({ [NODE_PAGE]: DOWN });
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await screen.findByText(/Below is its answer of/)).toBeVisible();
    expect(screen.getByText('Rule')).toBeVisible();
    vi.useRealTimers();
  });

  test('has labels of the field manager only', () => {
    const node = recorded('/api/v1/nodes/node-a');
    node.metadata.labels['other'] = 'violating';
    node.spec.taints.push({ key: 'example.com/other', effect: 'NoSchedule' });
    const { labels, taints, conditions } = writtenTo(node);
    expect(labels.map(([key]) => key)).toEqual(['telemetry.aware.scheduling.responsive/memory']);
    expect(taints.map(({ key }) => key)).toEqual(['plimsoll.io/shop.responsive']);
    expect(conditions.map(({ type }) => type)).toEqual(['plimsoll.io/Responsive']);
    expect(writtenTo({ metadata: { name: 'bare' } })).toEqual({
      labels: [],
      taints: [],
      conditions: [],
    });
  });

  test('shows pages with few and with many parts', async () => {
    const page = recorded(NODE_PAGE);
    delete page.past;
    page.policies = {};
    page.waitingFor = ['readings'];
    page.notices = ['all policies are frozen (alice: migration)'];
    page.problems = [
      {
        type: 'KernelDeadlock',
        active: true,
        reason: 'TaskHung',
        message: 'a task hangs',
        since: null,
      },
    ];
    page.failingRules = {
      more: 2,
      rules: [{ rule: 'x', group: 'g', file: '', message: 'no series' }],
    };
    page.written.memory = {
      'shop/responsive': { score: 2.5, lastViolation: '2026-11-23T14:25:42Z' },
    };
    serve({ [NODE_PAGE]: { status: 200, body: page } });
    show(<NodeSection resource={nodeObject()} />);
    expect(await screen.findByText('No policy.')).toBeVisible();
    expect(screen.getByText('Not ready: waiting for readings.')).toBeVisible();
    expect(screen.getByText('all policies are frozen (alice: migration)')).toBeVisible();
    expect(screen.getByText('TaskHung: a task hangs')).toBeVisible();
    expect(screen.getByText("2 more are on the agent's page.")).toBeVisible();
    expect(screen.getByText(/2\.5, last violation/)).toBeVisible();
    expect(screen.queryByText('History')).toBeNull();
  });
});

describe('policies', () => {
  test('list shows their status, and what is absent as absent', async () => {
    const list = recorded(POLICIES);
    const { metadata, ...rest } = list.items[0];
    const young = {
      ...rest,
      metadata: { ...metadata, name: 'young', uid: 'young' },
      status: undefined,
    };
    serve({ [POLICIES]: { status: 200, body: { ...list, items: [...list.items, young] } } });
    show(<PolicyList />, '/plimsoll/policies', '/plimsoll/policies');
    await screen.findByText('young');
    expect(row('responsive')).toHaveTextContent(/Violated.*1.*yes.*Enforce.*2.*0/);
    expect(row('young')).toHaveTextContent(/no status yet-----/);
  });

  test('a cluster without the CRD is told apart from one without policies', async () => {
    serve({ [POLICIES]: { status: 404, body: { message: 'the server could not find it' } } });
    show(<PolicyList />, '/plimsoll/policies', '/plimsoll/policies');
    expect(await screen.findByText(/kubectl apply -k deploy/)).toBeVisible();
  });

  test('page shows rules with their nodes, timers, readings and pods', async () => {
    serve();
    showPolicy();
    await screen.findByText('disk_wait_ratio is greater than 30');
    expect(
      within(row('disk_wait_ratio is greater than 30')).getByRole('link', { name: 'node-a' })
    ).toBeVisible();
    expect(row('cpu_pressure_ratio is greater than 40, for 10m')).toHaveTextContent(
      'pending on node-b'
    );
    expect(
      screen.getByText(/^for of cpu_pressure_ratio GreaterThan 40 ends in \d+ min$/)
    ).toBeVisible();
    expect(row('shop/web-2')).toHaveTextContent('0/3 nodes are available');
    expect(screen.getByText(/^violated on 1 of 3 nodes/)).toBeVisible();
  });

  test('page without the evaluator shows the rules as written', async () => {
    serve({ [POLICY_PAGE]: DOWN });
    showPolicy();
    expect(await screen.findByText('disk_wait_ratio GreaterThan 30')).toBeVisible();
    expect(await screen.findByText(/kubectl -n plimsoll get pods/)).toBeVisible();
  });
});

describe('pod', () => {
  test('shows why it waits and which nodes were refused', async () => {
    serve();
    show(<PodSection resource={podObject('web-2')} />);
    expect(
      await screen.findByText('policy shop/responsive refuses 1 of 1 feasible node')
    ).toBeVisible();
    expect(screen.getByText('yes')).toBeVisible();
    const [then, now] = screen.getAllByRole('table');
    expect(within(then!).getByRole('link', { name: 'node-a' }).closest('tr')).toHaveTextContent(
      'refused violating responsive: disk_wait_ratio GreaterThan 30'
    );
    expect(then!).toHaveTextContent('disk_wait_ratio: 61');
    expect(now!).toHaveTextContent('not feasible');
  });

  test('shows the node that it was bound to, with the readings of that moment', async () => {
    serve();
    show(<PodSection resource={podObject('web-1')} />);
    expect(await screen.findByText(/the pod was bound to/)).toBeVisible();
    expect(screen.getAllByText(/^ranked \d+ of 10$/).length).toBeGreaterThan(0);
  });

  test('of no policy and no gang has no section', () => {
    expect(concernsPlimsoll({ metadata: { name: 'other' } })).toBe(false);
    expect(
      concernsPlimsoll({ metadata: { name: 'of-none', labels: { app: 'x' } }, spec: {} })
    ).toBe(false);
    expect(concernsPlimsoll(recorded('/api/v1/namespaces/shop/pods/web-1'))).toBe(true);
    const gated = {
      metadata: { name: 'gated' },
      spec: { schedulingGates: [{ name: 'plimsoll.io/gang' }] },
    };
    expect(concernsPlimsoll(gated)).toBe(true);
  });
});

/** Text with markup, with a path that leads elsewhere, and with characters that reorder a line. */
const HOSTILE =
  '"><img src=x onerror=alert(1)><script>alert(1)</script>/../../..//evil.example/\u202egnp';

/** Returns a value in which each text and name of a field is hostile, except those that select what is drawn. */
function hostile(value: any, field = ''): any {
  if (Array.isArray(value)) {
    return value.map(one => hostile(one));
  }
  if (value && typeof value === 'object') {
    const named = ['policies', 'nodes', 'readings', 'strategies', 'pending', 'scores', 'memory'];
    const entries = Object.entries(value).map(([key, one]) => [
      named.includes(field) ? `${key}${HOSTILE}` : key,
      hostile(one, key),
    ]);
    return Object.fromEntries(entries);
  }
  return typeof value === 'string' && !['by', 'at'].includes(field) ? `${value}${HOSTILE}` : value;
}

test.each([
  ['node', NODE_PAGE, () => show(<NodeSection resource={nodeObject()} />)],
  ['pod', POD_PAGE, () => show(<PodSection resource={podObject('web-2')} />)],
  ['policy', POLICY_PAGE, showPolicy],
])('hostile texts on the page of a %s are only text', async (_, path, draw) => {
  const alerted = vi.spyOn(window, 'alert').mockImplementation(() => {});
  serve({
    [path]: { status: 200, body: hostile(recorded(path)) },
    [POLICY]: { status: 200, body: recorded(POLICY) },
  });
  draw();
  await waitFor(() => expect(document.body.textContent).toContain('\\u202egnp'));
  expect(document.body.textContent).not.toContain('\u202e');
  expect(document.querySelectorAll('img, script, iframe, object, embed')).toHaveLength(0);
  for (const link of document.querySelectorAll('a[href]')) {
    expect(new URL(link.getAttribute('href')!, 'http://here/').pathname).toMatch(
      /^\/c\/sandbox\/(nodes|pods|plimsoll\/policies|namespaces|events)/
    );
  }
  expect(alerted).not.toHaveBeenCalled();
});

test('settings take names of a Service, and mark what is none', () => {
  const changed = vi.fn();
  show(<Settings data={{ namespace: 'telemetry' }} onDataChange={changed} />);
  fireEvent.change(screen.getByLabelText('Service'), { target: { value: 'evaluator ' } });
  expect(changed).toHaveBeenCalledWith({ namespace: 'telemetry', service: 'evaluator' });
  expect(screen.getByLabelText('Port')).toHaveAttribute('placeholder', 'ops');
  cleanup();
  show(<Settings data={{ namespace: '../kube-system' }} onDataChange={changed} />);
  expect(screen.getByLabelText('Namespace')).toBeInvalid();
});
