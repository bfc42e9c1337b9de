import { readdirSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../errors/app-error.ts";
import { isAbsent, lostCharacter, readBytes } from "../text/read-text.ts";
import { didYouMean } from "../text/similar-words.ts";
import { FAILPOINTS, type Failpoint } from "./failpoint.ts";

export type Env = Readonly<Record<string, string | undefined>>;

/** Log levels. Each includes the more severe ones. */
const LOG_LEVELS = ["info", "warn", "error", "silent"] as const;
type LogLevel = (typeof LOG_LEVELS)[number];

/**
 * Environment variables that the program itself reads, and those that `postern dev` passes to a runner. A configuration
 * file may name others (`env:NAME`).
 */
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

/** Log settings of a process. `callShare`, from 0 to 1, is the share of calls whose ordinary events are logged. */
export type Logging = { level: LogLevel; callShare: number };

/** Reads the log settings. Throws `start.config_invalid` for an invalid level or share. */
export function loggingOf(env: Env): Logging {
  const level = wordIn(env, "POSTERN_LOG_LEVEL", LOG_LEVELS) ?? "info";
  return { level, callShare: shareIn(env, "POSTERN_LOG_CALLS") ?? 1 };
}

/** Returns the failpoint at which a test kills this process. Throws `start.config_invalid` for an unknown failpoint. */
export function failpointOf(env: Env): Failpoint | undefined {
  return wordIn(env, "POSTERN_FAILPOINT", FAILPOINTS);
}

/**
 * Throws `start.config_invalid` if one of the program's variables is not UTF-8. Node decodes variables as UTF-8, and
 * replaces bytes that it cannot decode with U+FFFD.
 */
export function requireUtf8(env: Env): void {
  for (const name of KNOWN) {
    const problem = lostCharacter(env[name] ?? "");
    if (problem !== undefined) throw new AppError("start.config_invalid", { reason: `${name}: ${problem}` });
  }
}

/** Command that runs the program from a clone of the repository. */
export const PROGRAM_OF_CLONE = "npm run postern --";

/** Returns the command with which the user runs the program. */
export function programName(env: Env): string {
  const { npm_lifecycle_event: script } = env;
  if (script === "postern") return PROGRAM_OF_CLONE;
  return script === "npx" ? "npx postern" : "postern";
}

/**
 * Returns the value of a variable if it is one of these words. An empty variable counts as unset, because many tools
 * set an absent variable to an empty one.
 */
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

/** Decimal number from 0 to 1. */
const SHARE = /^(?:0(?:\.\d{1,9})?|1(?:\.0{1,9})?)$/;

function shareIn(env: Env, name: string): number | undefined {
  const text = env[name];
  if (text === undefined || text === "") return undefined;
  if (SHARE.test(text)) return Number(text);
  throw new AppError("start.config_invalid", {
    reason: `${name}: must be a number from 0 to 1 such as 0.01, not ${JSON.stringify(text)}`,
  });
}

/** Matches the names of Postern's variables. They have only the characters that `variablesNamedIn` finds in a file. */
const OUR_NAME = /^POSTERN_\w*$/;

/** Variables that Kubernetes sets for each service, including a service named postern. */
const OF_KUBERNETES = /_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)$/;

/**
 * Returns a warning for each POSTERN_ variable that neither the program nor a file in `dir` reads. A name that looks
 * misspelt gets a hint. `dir` is undefined for a command that reads no configuration. Then only names that look
 * misspelt get a warning, because a terminal may have variables for another configuration.
 */
export function environmentWarnings(env: Env, dir: string | undefined): string[] {
  const { unused, names } = unusedIn(env, dir);
  return unused
    .map((name) => ({ name, hint: didYouMean(name, names) }))
    .filter(({ hint }) => dir !== undefined || hint !== "")
    .map(({ name, hint }) => `${name}: this variable is not used${hint}`);
}

/**
 * Returns the environment without the unused variables, for child processes. The parent process has already warned
 * about them, so a child need not warn again.
 */
export function withoutUnused(env: Env, dir: string | undefined): Env {
  const { unused } = unusedIn(env, dir);
  return Object.fromEntries(Object.entries(env).filter(([name]) => !unused.includes(name)));
}

/** Returns the POSTERN_ variables that nothing reads, and the names that are read. */
function unusedIn(env: Env, dir: string | undefined): { unused: string[]; names: string[] } {
  const ours = Object.keys(env).filter((name) => OUR_NAME.test(name) && !OF_KUBERNETES.test(name));
  const unknown = ours.filter((name) => !KNOWN.includes(name));
  const named = unknown.length === 0 ? undefined : variablesNamedIn(dir);
  if (named === undefined) return { unused: [], names: KNOWN };
  return { unused: unknown.filter((name) => !named.has(name)), names: [...KNOWN, ...named] };
}

/**
 * Returns the variables that the configuration files name. Files of other processes and comments count too, because a
 * missing warning is better than a wrong one. Undefined if a file cannot be read, because it might name any variable.
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
