import type { Command } from "commander";
import { DIFFICULTY_BEARABLE } from "../../../shared/pricing/proof-of-work.ts";
import { assertOneBody } from "../body.ts";
import { parseAddress, parseUrl, wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { QuoteOptions } from "./quote.ts";

/** `postern quote`: asks a pricing engine what a job costs, and gets its signed quote. */
export function addQuote(program: Command, deps: ProgramDeps): void {
  program
    .command("quote")
    .description("ask a pricing engine over HTTP for a signed quote, after doing its proof of work")
    .argument("<url>", "the engine's HTTP address", parseUrl)
    .argument("<service-id>", "the job's service", wholeNumber("a service id"))
    .argument("<job-index>", "the job", wholeNumber("a job index", { max: 2 ** 32 - 1 }))
    .requiredOption("--requester <address>", "who will redeem the quote, or pay with it", parseAddress)
    .option("--body <text>", "the inputs the quote is for")
    .option("--body-file <file>", "the inputs from a file")
    .option(
      "--difficulty <bits>",
      "of the engine's proof of work",
      wholeNumber("a difficulty", { max: DIFFICULTY_BEARABLE }),
      20,
    )
    .option("--json", "the engine's answer, as one JSON object")
    .action(async (...[url, serviceId, jobIndex, options, command]: Given) => {
      assertOneBody(command, options);
      const { quote } = await import("./quote.ts");
      deps.exitWith(await quote(deps, { url, serviceId, jobIndex }, options));
    });
}

type Given = [url: URL, serviceId: number, jobIndex: number, options: QuoteOptions, command: Command];
