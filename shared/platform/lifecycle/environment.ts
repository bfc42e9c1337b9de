import { readdirSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../errors/app-error.ts";
import { isAbsent, lostCharacter, readBytes } from "../text/read-text.ts";
import { didYouMean } from "../text/similar-words.ts";
import { FAILPOINTS, type Failpoint } from "./failpoint.ts";

export type Env = Readonly<Record<string, string | undefined>>;

/** What a process logs: this and what is worse. */
const LOG_LEVELS = ["info", "warn", "error", "silent"] as const;
type LogLevel = (typeof LOG_LEVELS)[number];

/** The variables that the program reads by their names, and those that `postern dev` gives to a runner. The configuration names others. */
const KNOWN = [
  "POSTERN_CONFIG_DIR",
  "POSTERN_SERVICE_ID",
  "POSTERN_LOG_LEVEL",
  "POSTERN_LOG_CALLS",
  "POSTERN_PAYER_KEY",
  "POSTERN_RESULT_TOKEN",
  "POSTERN_OPERATOR_URL",
  "POSTERN_OPERATOR_TOKEN",
  "POSTERN_FAILPOINT",
  "POSTERN_NO_INSTALL",
  "POSTERN_RUNNER_SECRET",
  "POSTERN_DELIVER_TO",
];

/** How a process logs. `callShare`, from 0 to 1, is the share of the calls whose ordinary events are logged. */
export type Logging = { level: LogLevel; callShare: number };

/** Throws `start.config_invalid` for a level that is none, and for a share that is none. */
export function loggingOf(env: Env): Logging {
  const level = wordIn(env, "POSTERN_LOG_LEVEL", LOG_LEVELS) ?? "info";
  return { level, callShare: shareIn(env, "POSTERN_LOG_CALLS") ?? 1 };
}

/** Where a process is to die, for tests. Throws `start.config_invalid` for a failpoint that is none. */
export function failpointOf(env: Env): Failpoint | undefined {
  return wordIn(env, "POSTERN_FAILPOINT", FAILPOINTS);
}

/** Throws `start.config_invalid` for a variable of the program that is not UTF-8: Node has put U+FFFD for what it could not decode. */
export function requireUtf8(env: Env): void {
  for (const name of KNOWN) {
    const problem = lostCharacter(env[name] ?? "");
    if (problem !== undefined) throw new AppError("start.config_invalid", { reason: `${name}: ${problem}` });
  }
}

/** How whoever runs the program from a clone calls it. */
export const PROGRAM_OF_CLONE = "npm run postern --";

/** How whoever runs this process calls the program. */
export function programName(env: Env): string {
  const { npm_lifecycle_event: script } = env;
  if (script === "postern") return PROGRAM_OF_CLONE;
  return script === "npx" ? "npx postern" : "postern";
}

/** An empty variable is as one that is not set: that is what many tools make of an absent one. */
function wordIn<Word extends string>(env: Env, name: string, words: readonly Word[]): Word | undefined {
  const text = env[name];
  if (text === undefined || text === "") return undefined;
  const word = words.find((each) => each === text);
  if (word !== undefined) return word;
  const hint = didYouMean(text, words, (each) => JSON.stringify(each));
  const list = words.map((each) => JSON.stringify(each)).join(", ");
  throw new AppError("start.config_invalid", {
    reason: `${name}: must be one of ${list}, not ${JSON.stringify(text)}${hint}`,
  });
}

/** A decimal number from 0 to 1. */
const SHARE = /^(?:0(?:\.\d{1,9})?|1(?:\.0{1,9})?)$/;

function shareIn(env: Env, name: string): number | undefined {
  const text = env[name];
  if (text === undefined || text === "") return undefined;
  if (SHARE.test(text)) return Number(text);
  throw new AppError("start.config_invalid", {
    reason: `${name}: must be a number from 0 to 1 such as 0.01, not ${JSON.stringify(text)}`,
  });
}

/** Names that `variablesNamedIn` would find in a file. */
const OUR_NAME = /^POSTERN_\w*$/;

/** Kubernetes sets these for each service beside a pod, also for one that is named postern. */
const OF_KUBERNETES = /_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)$/;

/**
 * A warning for each variable that begins as ours do and that nothing reads: neither the program nor a file in `dir`. One that looks like
 * a misspelt name gets a hint. An absent `dir` leaves out the others: a terminal may hold variables of another configuration.
 */
export function environmentWarnings(env: Env, dir: string | undefined): string[] {
  const { unused, names } = unusedIn(env, dir);
  return unused
    .map((name) => ({ name, hint: didYouMean(name, names) }))
    .filter(({ hint }) => dir !== undefined || hint !== "")
    .map(({ name, hint }) => `${name}: this variable is not used${hint}`);
}

/** The environment of processes whose parent has given these warnings: without the variables that nothing reads. */
export function withoutUnused(env: Env, dir: string | undefined): Env {
  const { unused } = unusedIn(env, dir);
  return Object.fromEntries(Object.entries(env).filter(([name]) => !unused.includes(name)));
}

/** Variables that begin as ours do and that nothing reads, and the names that are read. */
function unusedIn(env: Env, dir: string | undefined): { unused: string[]; names: string[] } {
  const ours = Object.keys(env).filter((name) => OUR_NAME.test(name) && !OF_KUBERNETES.test(name));
  const unknown = ours.filter((name) => !KNOWN.includes(name));
  const named = unknown.length === 0 ? undefined : variablesNamedIn(dir);
  if (named === undefined) return { unused: [], names: KNOWN };
  return { unused: unknown.filter((name) => !named.has(name)), names: [...KNOWN, ...named] };
}

/**
 * Also in files that other processes read, and in comments: one variable too few is warned of rather than one too many. Undefined if a file
 * cannot be read, which might name any.
 */
function variablesNamedIn(dir: string | undefined): Set<string> | undefined {
  if (dir === undefined || isAbsent(dir)) return new Set();
  try {
    const files = readdirSync(dir).filter((name) => name.endsWith(".toml") && !name.startsWith("."));
    const texts = files.map((name) => readBytes(join(dir, name)).toString("latin1"));
    return new Set(texts.flatMap((text) => [...text.matchAll(/env:(\w+)/g)].map(([, name = ""]) => name)));
  } catch {
    return undefined;
  }
}
