import { NodeSection } from './node';
import { nodeObject, serve, show } from './testing/headlamp';

test('node', async () => {
  const served = serve();
  show(<NodeSection resource={nodeObject()} />);
  await new Promise(r => setTimeout(r, 3000));
  console.log(served, document.body.textContent);
});
