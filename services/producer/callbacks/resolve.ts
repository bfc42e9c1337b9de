import { lookup, Resolver } from "node:dns/promises";
import { type Settled, settled } from "../../../shared/platform/time/clock.ts";

/** Resolves a name to all its addresses. Rejects if it has none, or if no DNS server answers. */
export type Resolve = (name: string) => Promise<string[]>;

/** Timeout of one query to a DNS server. A server that does not answer is queried once more. */
const QUERY_TIMEOUT_MS = 2000;
const TRIES = 2;

/** Error codes which say that DNS works but does not know the name, or that no DNS server is configured. */
const UNKNOWN = ["ENOTFOUND", "ENODATA", "ECONNREFUSED"];

/**
 * Creates a resolver that queries the DNS servers itself. The system's resolver (getaddrinfo) occupies one of the process's
 * few threads for each query. Clients choose the names of receivers, and may choose names whose DNS servers never answer.
 * Such queries could occupy all threads, and then no other name, such as the runner's, could be resolved. So the system's
 * resolver is used only for names that DNS does not know: names of the hosts file, and names in a search domain.
 */
export function createResolve(
  servers = new Resolver({ timeout: QUERY_TIMEOUT_MS, tries: TRIES }),
  ofSystem: Resolve = resolveBySystem,
): Resolve {
  return async (name) => {
    if (/^(?:.+\.)?localhost\.?$/.test(name)) return ["127.0.0.1"];
    const answers = await Promise.all([settled(servers.resolve4(name)), settled(servers.resolve6(name))]);
    const found = answers.flatMap((answer) => (answer.kind === "done" ? answer.result : []));
    if (found.length > 0) return found;
    if (answers.every(isUnknown)) return ofSystem(name);
    throw errorOf(answers);
  };
}

async function resolveBySystem(name: string): Promise<string[]> {
  return (await lookup(name, { all: true })).map(({ address }) => address);
}

function isUnknown(answer: Settled<unknown>): boolean {
  if (answer.kind === "done") return true;
  return UNKNOWN.includes(String((answer.error as NodeJS.ErrnoException).code));
}

function errorOf(answers: readonly Settled<unknown>[]): unknown {
  const failed = answers.find((answer) => answer.kind === "failed" && !isUnknown(answer));
  return failed?.kind === "failed" ? failed.error : undefined;
}
