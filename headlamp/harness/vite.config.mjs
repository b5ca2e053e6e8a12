// Builds the harness, and serves it with answers in place of Headlamp's server: the cluster's API, and the built plugin.
//
// PLIMSOLL_API: the API server, such as a sandbox's (endpoints.json in its folder), without authentication.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import svgr from 'vite-plugin-svgr';

const plugin = resolve(import.meta.dirname, '..');
const api = process.env.PLIMSOLL_API ?? 'http://127.0.0.1:1';
const AUTHORIZATION = '/clusters/sandbox/apis/authorization.k8s.io/v1';
const NAME = 'headlamp-plimsoll';

const answers = {
  '/config': () => JSON.stringify({ clusters: [{ name: 'sandbox', auth_type: '', server: api }] }),
  '/plugins': () => JSON.stringify([{ path: `plugins/${NAME}`, type: 'user', name: NAME }]),
  [`/plugins/${NAME}/main.js`]: () => readFileSync(`${plugin}/dist/main.js`),
  [`/plugins/${NAME}/package.json`]: () => readFileSync(`${plugin}/package.json`),
  // Whether the user is logged in, and may edit or delete an object: a sandbox has no users.
  [`${AUTHORIZATION}/selfsubjectrulesreviews`]: () => '{}',
  [`${AUTHORIZATION}/selfsubjectaccessreviews`]: () => '{"status": {"allowed": false}}',
};

function answer(request, response, next) {
  const found = answers[new URL(request.url, api).pathname];
  return found ? response.end(found()) : next();
}

export default {
  root: import.meta.dirname,
  define: { global: 'globalThis' },
  plugins: [
    svgr({ include: '**/*.svg' }),
    { name: 'headlamp-server', configurePreviewServer: server => void server.middlewares.use(answer) },
  ],
  resolve: { alias: [{ find: 'unenv/node/process', replacement: 'process/browser' }] },
  build: { outDir: `${plugin}/build/harness`, emptyOutDir: true, target: 'esnext', minify: false },
  preview: {
    host: '127.0.0.1',
    proxy: {
      '/clusters/sandbox': {
        target: api,
        rewrite: path => path.replace('/clusters/sandbox', ''),
        // An API server may check the Host header.
        changeOrigin: true,
      },
    },
  },
};
