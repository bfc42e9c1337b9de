import type { Command } from "commander";
import { parseUrl, usageError, waitOption } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { ResultOptions } from "./result.ts";

const ENVIRONMENT = `
Environment variables:
  POSTERN_RESULT_TOKEN  result token
  POSTERN_PAYER_KEY     private key of the payer, who signs in if the token is
                        missing or refused`;

/** `postern result` and its options. No token is taken from the command line, which other users of the machine can read. */
export function addResult(program: Command, deps: ProgramDeps): void {
  program
    .command("result")
    .description("fetch and print the result of a paid call")
    .argument("<url>", "URL of the result, as printed by postern pay", parseUrl)
    .option("--token-file <file>", "file with the result token")
    .addOption(waitOption("seconds to wait for a call that has not ended; 0 does not wait"))
    .option("--json", "print one JSON object")
    .addHelpText("after", ENVIRONMENT)
    .action(async (url: URL, options: ResultOptions, command: Command) => {
      if (url.searchParams.has("token"))
        usageError(command, "pass the token in POSTERN_RESULT_TOKEN or --token-file, not in the URL");
      const { showResult } = await import("./result.ts");
      deps.exitWith(await showResult(deps, url, options));
    });
}
