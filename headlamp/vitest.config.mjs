// The configuration that Headlamp brings for plugins; its library is compiled for a bundler, which resolves its folders.
import shipped from '@kinvolk/headlamp-plugin/config/vite.config.mjs';
import { mergeConfig } from 'vite';

export default mergeConfig(shipped, {
  resolve: { alias: [{ find: 'unenv/node/process', replacement: 'node:process' }] },
  test: {
    testTimeout: 60_000,
    // Headlamp's own components log much.
    silent: 'passed-only',
    include: ['src/**/*.test.{ts,tsx}'],
    setupFiles: ['./src/testing/setup.ts'],
    server: { deps: { inline: [/@kinvolk\/headlamp-plugin/] } },
  },
});
