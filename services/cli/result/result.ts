import { AppError, messageOf } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { readText } from "../../../shared/platform/text/read-text.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { isResultToken } from "../options.ts";
import { payerKey, whyNoKey } from "../payer-key.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import { type Credentials, fetchResult, NoResult } from "./fetch.ts";
import { printResult, resultJson } from "./print.ts";

export type ResultOptions = { tokenFile?: string; wait: number; json?: boolean; quiet?: boolean };

/** `postern result`: prints the output of a call. Exit code 1 if it cannot be fetched. */
export async function showResult(deps: ProgramDeps, url: URL, options: ResultOptions): Promise<number> {
  const { wait, json = false, quiet = false } = options;
  const proof = readProof(deps, options);
  if (typeof proof === "string") {
    deps.printError(new AppError("start.config_invalid", { reason: proof }));
    return EXIT.config;
  }
  try {
    const result = await fetchResult(url, proof, systemClock() + wait * 1000);
    if (json) deps.print(jsonLine({ url: url.href, ...resultJson(result) }));
    else printResult(deps, result, quiet);
    return EXIT.ok;
  } catch (error) {
    deps.printError(`${messageOf(error)}\n${hintFor(error)}`);
    return EXIT.failed;
  }
}

const TOKEN_HINT = "set POSTERN_RESULT_TOKEN to the result_token of the call's 202 answer";

/** Advice for refusals, by their codes. */
const HINTS: Readonly<Record<string, string>> = {
  "result.proof_required": `${TOKEN_HINT}\n`,
  "result.sign_in_required": `${TOKEN_HINT}, or POSTERN_PAYER_KEY to the key of its payer\n`,
  "request.not_found": "pass the result_url of the call's 202 answer\n",
};

function hintFor(error: unknown): string {
  return error instanceof NoResult ? (HINTS[String(error.code)] ?? "") : "";
}

function readProof({ env }: ProgramDeps, { tokenFile }: ResultOptions): Credentials | string {
  const given = tokenFile === undefined ? env["POSTERN_RESULT_TOKEN"] || undefined : readTokenFile(tokenFile);
  if (typeof given === "object") return given.problem;
  const token = given?.trim();
  if (token !== undefined && !isResultToken(token))
    return `${tokenFile ?? "POSTERN_RESULT_TOKEN"} must hold a result token: one word of visible ASCII`;
  const key = payerKey(env);
  if (token === undefined && key === undefined)
    return `a result token (result_token of the call's 202) or the key of the payer is required: set POSTERN_RESULT_TOKEN or pass --token-file, or set the key. ${whyNoKey(env)}`;
  return { token, payerKey: key };
}

function readTokenFile(file: string): string | { problem: string } {
  try {
    return readText(file);
  } catch (error) {
    return { problem: `--token-file ${file} ${messageOf(error)}` };
  }
}
