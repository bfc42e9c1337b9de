import { lookup, Resolver } from "node:dns/promises";
import { type Settled, settled } from "../../../shared/platform/time/clock.ts";

/** All addresses of a name. Rejects if it has none, or nobody says. */
export type Resolve = (name: string) => Promise<string[]>;

/** A server that does not answer is asked again once, after so long. */
const ASKED_FOR_MS = 2000;
const TRIES = 2;

/** Answers which say that the servers work, and know no such name; or that there are no servers. */
const UNKNOWN = ["ENOTFOUND", "ENODATA", "ECONNREFUSED"];

/**
 * Asks the servers of DNS itself. The system's resolver holds one of the few threads of a process for each name that is asked for, and
 * names of strangers may lead to servers that never answer: then nothing else would be resolved either, as the runner's name. So it is
 * asked only for names that DNS does not know: those of the hosts file, and those in a search domain.
 */
export function createResolve(
  servers = new Resolver({ timeout: ASKED_FOR_MS, tries: TRIES }),
  ofSystem: Resolve = askSystem,
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

async function askSystem(name: string): Promise<string[]> {
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
