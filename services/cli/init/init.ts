import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { DEPLOYMENT_ID } from "../../../shared/config/redis-toml.ts";
import { messageOf } from "../../../shared/platform/errors/app-error.ts";
import { programName } from "../../../shared/platform/lifecycle/environment.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { isAbsent } from "../../../shared/platform/text/read-text.ts";
import { shellQuote } from "../../../shared/platform/text/shell-quote.ts";
import { newDeploymentId } from "../../../shared/redis/deployment.ts";
import { checkConfig } from "../config/check.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type Choices, choose } from "./choices.ts";
import { filesFor, type NewFile, SECRETS } from "./files.ts";
import type { InitOptions } from "./init-options.ts";

/**
 * `postern init`: writes a new configuration and checks it. Overwrites existing files only with --force or if the
 * operator confirms, and even then keeps existing secrets and the deployment's id. Exit code 1 if the operator quits.
 * Nothing is written then.
 */
export async function initConfig(deps: ProgramDeps, dir: string, options: InitOptions): Promise<number> {
  const { terminal, print, say, printError } = deps;
  if (!options.yes && !terminal.canAsk) {
    printError(
      "error: --yes is required when stdin is not a terminal; see --help for the options that replace the questions\n",
    );
    return EXIT.usage;
  }
  let choices: Choices | undefined;
  try {
    choices = await choose(options, terminal);
  } catch (error) {
    printError(`error: ${messageOf(error)}\n`);
    return EXIT.usage;
  }
  if (choices === undefined) return reportQuit(printError);
  const files = filesFor(choices, schemasFrom(dir), deploymentIn(dir) ?? newDeploymentId());
  if (!(await mayWrite(deps, dir, files, options))) return reportQuit(printError);
  for (const file of files) write(dir, file);
  const checked = await checkConfig(deps, { configDir: dir });
  const written = files.map(({ name }) => join(dir, name));
  if (options.json) print(jsonLine({ config_dir: dir, files: written, valid: checked === EXIT.ok }));
  if (checked === EXIT.ok) say(nextSteps(dir, choices, programName(deps.env)));
  return checked;
}

function reportQuit(printError: ProgramDeps["printError"]): number {
  printError("nothing was written\n");
  return EXIT.failed;
}

/**
 * Reads the deployment's id from a configuration that will be overwritten. The new configuration must have the same id.
 * The data in Redis contains it, and services refuse data with another id.
 */
function deploymentIn(dir: string): string | undefined {
  const path = join(dir, "postern.toml");
  if (isAbsent(path)) return undefined;
  const id = /^deployment_id = "([^"]*)"/m.exec(readFileSync(path, "utf8"))?.[1];
  return id !== undefined && DEPLOYMENT_ID.test(id) ? id : undefined;
}

/** Returns the path of this package's JSON Schemas, relative to the configuration directory. */
function schemasFrom(dir: string): string | undefined {
  const root = dirname(createRequire(import.meta.url).resolve("postern/package.json"));
  const schemas = join(root, "config", "schema");
  return existsSync(schemas) ? relative(resolve(dir), schemas) : undefined;
}

async function mayWrite(
  { terminal, printError }: ProgramDeps,
  dir: string,
  files: readonly NewFile[],
  { yes, force }: InitOptions,
): Promise<boolean> {
  const there = files.filter(
    ({ name, isSecret }) => !isSecret && name !== ".gitignore" && !isAbsent(join(dir, name)),
  );
  if (there.length === 0 || force) return true;
  const names = there.map(({ name }) => join(dir, name)).join(", ");
  if (!yes) {
    const answer = await terminal.prompt(`These files already exist: ${names}. Overwrite them? [y/N] `);
    return /^y(?:es)?$/i.test(answer ?? "");
  }
  printError(`error: these files already exist: ${names}; use --force to overwrite them\n`);
  return false;
}

/** Writes a file. Only its owner may read a secret. */
function write(dir: string, { name, text, isSecret }: NewFile): void {
  const path = join(dir, name);
  mkdirSync(isSecret ? join(dir, SECRETS) : dir, { recursive: true, ...(isSecret && { mode: 0o700 }) });
  if (isSecret) {
    if (isAbsent(path)) writeFileSync(path, text, { mode: 0o600, flag: "wx" });
  } else if (name === ".gitignore" && !isAbsent(path)) {
    const known = readFileSync(path, "utf8");
    const isLast = known === "" || known.endsWith("\n");
    if (!known.split("\n").includes(text.trim())) appendFileSync(path, isLast ? text : `\n${text}`);
  } else writeFileSync(path, text);
}

function nextSteps(dir: string, { webhooks, payments }: Choices, program: string): string {
  const at = dir === "config" ? "" : ` --config-dir ${shellQuote(dir)}`;
  const secret = join(dir, SECRETS, webhooks?.preset ?? "inbox");
  const lines = [
    "",
    "Next, run each command in its own terminal:",
    "  redis-server --appendonly yes --appendfsync always --maxmemory-policy noeviction",
    ...(payments?.token === "devnet" ? [`  ${program} devnet`] : []),
    ...(webhooks === undefined ? [] : [`  ${program} webhooks${at}`]),
    ...(payments === undefined ? [] : [`  ${program} x402${at}`]),
    `  ${program} producer${at}`,
    `Also run your runner, or the reference runner: ${program} runner${at}`,
    `To try everything in one terminal instead: ${program} dev --config-dir ${shellQuote(dir)}`,
    ...(webhooks === undefined || !existsSync(secret)
      ? []
      : [
          `The secret of the sender is in ${secret}: set it at the sender, or replace it with the secret that the sender shows you.`,
        ]),
  ];
  return `${lines.join("\n")}\n`;
}
