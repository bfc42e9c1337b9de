import type { Command } from "commander";
import { parseUrl, usageError, waitOption } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { ResultOptions } from "./result.ts";

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
      const { showResult } = await import("./result.ts");
      deps.exitWith(await showResult(deps, url, options));
    });
}
