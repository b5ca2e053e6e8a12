/** Headlamp's own parts around a component of the plugin, and an API server that answers as recorded. */
import '../index';
import { K8s } from '@kinvolk/headlamp-plugin/lib';
import { setStore } from '@kinvolk/headlamp-plugin/lib/lib/router/createRouteURL';
import { createMuiTheme } from '@kinvolk/headlamp-plugin/lib/lib/themes';
import store from '@kinvolk/headlamp-plugin/lib/redux/stores/store';
import { ThemeProvider } from '@mui/material/styles';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { render } from '@testing-library/react';
import { SnackbarProvider } from 'notistack';
import { ReactNode } from 'react';
import { Provider } from 'react-redux';
import { MemoryRouter, Route } from 'react-router-dom';
import { vi } from 'vitest';
import answers from '../../recorded/answers.json';

export interface Recorded {
  status: number;
  body: any;
}

setStore(store);

export const CLUSTER = 'sandbox';
export const PROXY = '/api/v1/namespaces/plimsoll/services/http:plimsoll-evaluator:ops/proxy';
export const POLICIES = '/apis/telemetry.intel.com/v1alpha1/taspolicies';

/** Returns a copy of a recorded answer's body. */
export function recorded(path: string): any {
  return structuredClone((answers as Record<string, Recorded>)[path]?.body);
}

export interface Served {
  /** Paths below the API server, in the order of their requests. */
  requested: string[];
}

/** A browser's storage without anything: Headlamp looks there for kubeconfigs. */
class EmptyDatabase {
  open() {
    return completed(this);
  }
  transaction() {
    return this;
  }
  objectStore() {
    return this;
  }
  openCursor() {
    return completed(null);
  }
}

function completed(result: unknown) {
  const request: { onsuccess?: (event: unknown) => void } = {};
  queueMicrotask(() => request.onsuccess?.({ target: { result } }));
  return request;
}

/** A watch in which nothing happens. */
class SilentSocket extends EventTarget {
  close() {}
  send() {}
}

/** Answers requests to the cluster as recorded, or as `changed` says; others with 404 as an API server does. */
export function serve(changed: Record<string, Recorded> = {}): Served {
  const known: Record<string, Recorded> = { ...answers, ...changed };
  const requested: string[] = [];
  vi.stubGlobal('indexedDB', new EmptyDatabase());
  vi.stubGlobal('WebSocket', SilentSocket);
  vi.stubGlobal('fetch', async (input: RequestInfo | URL) => {
    const url = new URL(input instanceof Request ? input.url : String(input), 'http://localhost');
    const path = url.pathname.replace(new RegExp(`^/clusters/${CLUSTER}`), '');
    requested.push(path);
    const { status, body } = known[path] ?? {
      status: 404,
      body: { kind: 'Status', message: 'the server could not find the requested resource' },
    };
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    return new Response(text, { status, headers: { 'content-type': 'application/json' } });
  });
  return { requested };
}

export function nodeObject(path = '/api/v1/nodes/node-a'): any {
  return new K8s.ResourceClasses.Node(recorded(path), CLUSTER);
}

export function podObject(name: string): any {
  return new K8s.ResourceClasses.Pod(recorded(`/api/v1/namespaces/shop/pods/${name}`), CLUSTER);
}

/** Draws a component as at a path below the cluster; `route` is the pattern of its parameters. */
export function show(component: ReactNode, path = '/', route = '/') {
  const url = `/c/${CLUSTER}${path}`;
  window.history.replaceState({}, '', url);
  return render(
    <Provider store={store}>
      <QueryClientProvider
        client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}
      >
        <ThemeProvider theme={createMuiTheme({ name: 'light', base: 'light' })}>
          <SnackbarProvider>
            <MemoryRouter initialEntries={[url]}>
              <Route path={`/c/:cluster${route}`}>{component}</Route>
            </MemoryRouter>
          </SnackbarProvider>
        </ThemeProvider>
      </QueryClientProvider>
    </Provider>
  );
}
