import type { Command } from "commander";
import { AppError, messageOf } from "../../../shared/errors/app-error.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { readText } from "../../../shared/text/read-text.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { isResultToken, parseUrl, usageError, waitOption } from "../options.ts";
import { payerKey, whyNoKey } from "../payer-key.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine } from "../text.ts";
import type { Proof } from "./fetch.ts";

type ResultOptions = { tokenFile?: string; wait: number; json?: boolean; quiet?: boolean };

/** `postern result` and its options. No token is taken from the command line, which other users of the machine can read. */
export function addResult(program: Command, deps: ProgramDeps): void {
  program
    .command("result")
    .description("fetch the output of a job that was bought, and print it")
    .argument("<url>", "the result's URL, as postern pay prints it", parseUrl)
    .option("--token-file <file>", "the file that holds the result's token")
    .addOption(waitOption("wait at most this long for a job that has not ended; 0: ask once"))
    .option("--json", "the output as one JSON object")
    .addHelpText(
      "after",
      "\nPOSTERN_RESULT_TOKEN holds the result's token. Without one, or if it is refused, POSTERN_PAYER_KEY signs in as the payer.",
    )
    .action(async (url: URL, options: ResultOptions, command: Command) => {
      if (url.searchParams.has("token"))
        usageError(command, "give the token in POSTERN_RESULT_TOKEN or --token-file, not in the URL");
      deps.exitWith(await showResult(deps, url, options));
    });
}

/** `postern result`: 0 once the output is printed. */
async function showResult(deps: ProgramDeps, url: URL, options: ResultOptions): Promise<number> {
  const { wait, json = false, quiet = false } = options;
  const proof = readProof(deps, options);
  if (typeof proof === "string") {
    deps.printError(new AppError("start.config_invalid", { reason: proof }));
    return EXIT.config;
  }
  const [{ fetchResult }, { printResult, resultJson }] = await Promise.all([
    import("./fetch.ts"),
    import("./print.ts"),
  ]);
  try {
    const result = await fetchResult(url, proof, systemClock() + wait * 1000);
    if (json) deps.print(jsonLine({ url: url.href, ...resultJson(result) }));
    else printResult(deps, result, quiet);
    return EXIT.ok;
  } catch (error) {
    deps.printError(`${messageOf(error)}\n`);
    return EXIT.failed;
  }
}

function readProof({ env }: ProgramDeps, { tokenFile }: ResultOptions): Proof | string {
  const given = tokenFile === undefined ? env["POSTERN_RESULT_TOKEN"] || undefined : readTokenFile(tokenFile);
  if (typeof given === "object") return given.problem;
  const token = given?.trim();
  if (token !== undefined && !isResultToken(token))
    return `${tokenFile ?? "POSTERN_RESULT_TOKEN"} holds no token: it must be one word of visible ASCII`;
  const key = payerKey(env);
  if (token === undefined && key === undefined)
    return `a result needs its token, in POSTERN_RESULT_TOKEN or --token-file, or its payer's key: ${whyNoKey(env)}`;
  return { token, payerKey: key };
}

function readTokenFile(file: string): string | { problem: string } {
  try {
    return readText(file);
  } catch (error) {
    return { problem: `--token-file ${file} ${messageOf(error)}` };
  }
}
