import { idsOfKey } from "../../../shared/call/job-ids.ts";
import { DIFFICULTY_BEARABLE } from "../../../shared/pricing/proof-of-work.ts";
import { GROUP, type ProgramCommand } from "../command.ts";
import { bodyFile, parseAddress, parseJobKey, parseUrl, wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { QuoteOptions } from "./quote.ts";

export function addQuote(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("quote")
    .description("compute a proof of work, and request a signed quote from a pricing engine")
    .helpGroup(GROUP.try)
    .argument("<url>", "HTTP URL of the pricing engine", parseUrl)
    .requiredOption("--job <service/job>", "job of the quote, such as 7/1", parseJobKey)
    .requiredOption("--requester <address>", "address that will pay with the quote", parseAddress)
    .option("--body <text>", "body of the paid request")
    .addOption(bodyFile("file with the body of the paid request"))
    .option(
      "--difficulty <bits>",
      "difficulty of the proof of work, as configured at the engine",
      wholeNumber({ example: 20, max: DIFFICULTY_BEARABLE }),
      20,
    )
    .examples("quote http://127.0.0.1:8404 --job 0/1 --requester $ADDRESS")
    .action(async (url: URL, options: QuoteOptions & { job: string }) => {
      const { showQuote } = await import("./quote.ts");
      deps.exitWith(await showQuote(deps, url, idsOfKey(options.job), options));
    });
}
