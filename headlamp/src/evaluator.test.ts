import { EvaluatorError, isName, pagePath, readPage, SHIPPED } from './evaluator';
import { CLUSTER, PROXY, Recorded, recorded, serve } from './testing/headlamp';

const NODE = `${PROXY}/nodes/node-a.json`;

function status(code: number, message: string): Recorded {
  return { status: code, body: { kind: 'Status', status: 'Failure', message } };
}

test('a page is read through the proxy of the shipped Service', async () => {
  const served = serve();
  expect(await readPage(SHIPPED, CLUSTER, ['nodes', 'node-a'])).toEqual(recorded(NODE));
  expect(served.requested).toEqual([NODE]);
});

test('a port with TLS is asked again over HTTPS', async () => {
  const https = NODE.replace('/http:', '/https:');
  const served = serve({ [NODE]: status(400, ''), [https]: { status: 200, body: recorded(NODE) } });
  expect(await readPage(SHIPPED, CLUSTER, ['nodes', 'node-a'])).toEqual(recorded(NODE));
  expect(served.requested).toEqual([NODE, https]);
});

test.each<[string, Recorded, RegExp, RegExp]>([
  [
    'no evaluator is ready',
    status(503, 'no endpoints available for service "x"'),
    /no endpoints/,
    /get pods$/,
  ],
  [
    'the user may not',
    status(403, 'services "http:x:ops" is forbidden'),
    /forbidden/,
    /--resource=services\/proxy/,
  ],
  [
    'the Service has another name',
    status(404, 'services "plimsoll-evaluator" not found'),
    /not found/,
    /Settings/,
  ],
  [
    '--opsAuthorize',
    status(401, 'a bearer token is required'),
    /token/,
    /--opsAuthorize.*port-forward/,
  ],
  [
    '--pagesFrom',
    status(403, 'pages are for kubectl port-forward, not for 10.0.0.7: --pagesFrom=10.0.0.7/32'),
    /10\.0\.0\.7/,
    /evaluator\.pagesFrom/,
  ],
  ['the session in the cluster ended', status(401, 'Unauthorized'), /Unauthorized/, /Log in/],
  [
    'the evaluator does not have the node',
    status(404, 'no node node-a'),
    /no node node-a/,
    /created or deleted/,
  ],
  ['the evaluator does not answer', status(504, ''), /./, /asked again in 10 s/],
  ['another server answers', { status: 200, body: '<html>' }, /./, /Settings/],
  [
    'another program answers',
    { status: 200, body: { up: 1 } },
    /not a page of the evaluator/,
    /Settings/,
  ],
])('%s: the error says so, and what to do', async (_, answer, message, advice) => {
  serve({ [NODE]: answer });
  const failure = await readPage(SHIPPED, CLUSTER, ['nodes', 'node-a']).catch(error => error);
  expect(failure).toBeInstanceOf(EvaluatorError);
  expect(failure.message).toMatch(message);
  expect(failure.advice).toMatch(advice);
});

test('the errors that a sandbox gives have advice', async () => {
  serve();
  const other = { ...SHIPPED, service: 'other' };
  const noService = readPage(other, CLUSTER, ['nodes', 'node-a']);
  await expect(noService).rejects.toMatchObject({
    message: expect.stringContaining('services "other" not found'),
    advice: expect.stringContaining('Settings'),
  });
  const noNode = readPage(SHIPPED, CLUSTER, ['nodes', 'node-x']);
  await expect(noNode).rejects.toMatchObject({ message: 'no node node-x' });
});

test.each([
  '..',
  '.',
  '',
  'a/b',
  '%2e%2e',
  'a?b',
  'a#b',
  'A',
  'a..',
  `${'a'.repeat(254)}`,
  '\u202e',
])('no request leaves the proxy by the name %j', async name => {
  const served = serve();
  expect(isName(name)).toBe(false);
  expect(() => pagePath({ ...SHIPPED, namespace: name }, 'http', ['nodes', 'a'])).toThrow(
    EvaluatorError
  );
  await expect(readPage(SHIPPED, CLUSTER, ['nodes', name])).rejects.toThrow('is not a name');
  expect(served.requested).toEqual([]);
});
