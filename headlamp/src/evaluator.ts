/** Reads the evaluator's pages as JSON through the API server's service proxy, with the rights of Headlamp's user. */
import { ApiProxy } from '@kinvolk/headlamp-plugin/lib';
import { useEffect, useState } from 'react';
import { NodePage, PodPage, PolicyPage } from './pages';

type Page = NodePage | PolicyPage | PodPage;

/** Where the evaluator is, the same in every cluster: fields of the plugin's settings. */
export interface EvaluatorService {
  namespace: string;
  service: string;
  /** The Service's port, by name or number. */
  port: string;
}

/** As `deploy/` installs it. */
export const SHIPPED: EvaluatorService = {
  namespace: 'plimsoll',
  service: 'plimsoll-evaluator',
  port: 'ops',
};

/** What went wrong, and what the user can do about it. */
export class EvaluatorError extends Error {
  constructor(message: string, readonly advice: string) {
    super(message);
  }
}

/** An object's or port's name in Kubernetes; it excludes the segments `.` and `..`, which change a path. */
const NAME = /^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/;
const LONGEST_NAME = 253;

/** Returns whether a text can be the name of an object or port. */
export function isName(text: string): boolean {
  return text.length <= LONGEST_NAME && NAME.test(text);
}

/**
 * Returns the path of a page as JSON below the API server.
 *
 * @throws EvaluatorError if a name cannot be one.
 */
export function pagePath(evaluator: EvaluatorService, scheme: string, page: string[]): string {
  const { namespace, service, port } = evaluator;
  for (const name of [namespace, service, port, ...page]) {
    if (!isName(name)) {
      const shown = JSON.stringify(name.slice(0, LONGEST_NAME));
      throw new EvaluatorError(`${shown} is not a name`, SET_SERVICE);
    }
  }
  const proxy = `/api/v1/namespaces/${namespace}/services/${scheme}:${service}:${port}/proxy`;
  return `${proxy}/${page.join('/')}.json`;
}

/**
 * Returns a page, over HTTP, or over HTTPS if the port has TLS (--opsTls).
 *
 * @param page its path: `['nodes', name]`, `['policies', namespace, name]` or `['pods', namespace, name]`
 * @throws EvaluatorError
 */
export async function readPage<P extends Page>(
  evaluator: EvaluatorService,
  cluster: string,
  page: string[]
): Promise<P> {
  try {
    return await requested<P>(evaluator, 'http', cluster, page);
  } catch (error) {
    if (!(error instanceof EvaluatorError) && statusOf(error) === 400) {
      return await requested<P>(evaluator, 'https', cluster, page).catch(failure => {
        throw explained(failure, evaluator);
      });
    }
    throw explained(error, evaluator);
  }
}

async function requested<P extends Page>(
  evaluator: EvaluatorService,
  scheme: string,
  cluster: string,
  page: string[]
): Promise<P> {
  // With autoLogoutOnAuthError, a 401 of the evaluator would end the user's session in the cluster.
  const found: unknown = await ApiProxy.clusterRequest(pagePath(evaluator, scheme, page), {
    cluster,
    autoLogoutOnAuthError: false,
  });
  if (typeof found !== 'object' || found === null || !('waitingFor' in found || 'nodes' in found)) {
    throw new EvaluatorError('the answer is not a page of the evaluator', SET_SERVICE);
  }
  return visible(found) as P;
}

/** Returns a JSON value with control characters and those that reorder a line as escapes, in its texts and names. */
export function visible(value: unknown): unknown {
  if (typeof value === 'string') {
    return value.replace(
      /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
      character => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`
    );
  }
  if (Array.isArray(value)) {
    return value.map(visible);
  }
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => [visible(name), visible(one)])
    );
  }
  return value;
}

const SET_SERVICE =
  'Enter the namespace, Service and port of the evaluator in Settings, Plugins, headlamp-plimsoll.';

/** Returns an error with what the user can do, by the texts of API server and evaluator. */
export function explained(error: unknown, evaluator: EvaluatorService): EvaluatorError {
  if (error instanceof EvaluatorError) {
    return error;
  }
  const status = statusOf(error);
  const message = messageOf(error);
  const advice = () => {
    if (message.includes('a bearer token is required')) {
      return (
        "The evaluator runs with --opsAuthorize, and the API server's service proxy passes no token on: " +
        'read its pages through a port-forward (docs/pages.md).'
      );
    }
    if (message.includes('--pagesFrom=')) {
      return (
        "The evaluator does not open its pages to the API server's service proxy: set --pagesFrom, with the chart " +
        'evaluator.pagesFrom (docs/kubectl-plugin.md).'
      );
    }
    if (message.includes('services "') && status === 404) {
      return SET_SERVICE;
    }
    if (message.includes('no endpoints available')) {
      return `No evaluator is ready: kubectl -n ${evaluator.namespace} get pods`;
    }
    switch (status) {
      case 401:
        return 'Log in to the cluster again.';
      case 403:
        return (
          `You need the right to get services/proxy in namespace ${evaluator.namespace}: kubectl -n ${evaluator.namespace} ` +
          'create role plimsoll-explain --verb=get --resource=services/proxy ' +
          `--resource-name=http:${evaluator.service}:${evaluator.port}, and a role binding.`
        );
      case 404:
        return 'The evaluator does not have it: was it just created or deleted, or do its pages need --explain?';
      case 408:
      case 502:
      case 503:
      case 504:
        return `It is asked again in ${REFRESH / 1000} s. If this lasts: kubectl -n ${
          evaluator.namespace
        } get pods,endpoints`;
      default:
        return SET_SERVICE;
    }
  };
  return new EvaluatorError(message, advice());
}

function statusOf(error: unknown): number | undefined {
  return (error as { status?: number } | null)?.status;
}

/** Returns the server's message. Headlamp writes the status text and a dash before it. */
function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/^[A-Za-z ]{0,40} - (?=\S)/, '');
}

/** Milliseconds between two reads of a page, as the evaluator's own pages refresh. */
const REFRESH = 10_000;

/** What is known of a page: the last one read, and why the newest attempt failed. */
export interface Answer<P> {
  page?: P;
  readAt?: Date;
  error?: EvaluatorError;
}

/** Reads a page every ten seconds while the tab is visible. */
export function usePage<P extends Page>(
  evaluator: EvaluatorService,
  cluster: string,
  page: string[]
): Answer<P> {
  const { namespace, service, port } = evaluator;
  const key = JSON.stringify(page);
  const [answer, setAnswer] = useState<Answer<P>>({});
  useEffect(() => {
    let ended = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    setAnswer({});
    const refresh = async () => {
      if (!document.hidden) {
        try {
          const found = await readPage<P>({ namespace, service, port }, cluster, JSON.parse(key));
          if (!ended) {
            setAnswer({ page: found, readAt: new Date() });
          }
        } catch (error) {
          if (!ended) {
            setAnswer(last => ({ ...last, error: error as EvaluatorError }));
          }
        }
      }
      if (!ended) {
        timer = setTimeout(refresh, REFRESH);
      }
    };
    refresh();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [namespace, service, port, cluster, key]);
  return answer;
}
