import { type Command, InvalidArgumentError } from "commander";
import { isJobName } from "../../../shared/job-call/job-ids.ts";
import { parseUrl, requireOneBody, usageError, waitOption, wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { PayOptions } from "./pay.ts";

/** `postern pay` and its options. The payer's key comes from the environment and from nowhere else. */
export function addPay(program: Command, deps: ProgramDeps): void {
  program
    .command("pay")
    .description("buy a job: pay what is asked for it, up to a cap, and print its output")
    .argument("<job>", "the job's URL, or its name at --gateway", parseJob)
    .option(
      "--gateway <url>",
      "the gateway that sells the job of this name, as http://127.0.0.1:8402",
      parseUrl,
    )
    .option("--body <text>", "the request's body")
    .option("--body-file <file>", "the request's body from a file")
    .option("--content-type <type>", "of the body (default: application/json if it is JSON, else text/plain)")
    .option("--max <amount>", "pay at most so much, in tokens, as 5 or 0.25", parseAmount, "1")
    .option(
      "--token <asset=decimals>",
      "pay with this token too, beside those the x402 client knows",
      collectToken,
    )
    .option(
      "--quote <header>",
      "pay by this quote, as postern quote prints it: X-PLATFORM-QUOTE",
      parseHeader,
    )
    .addOption(waitOption("once it is paid for, wait at most this long for the output; 0: end at once"))
    .option("--timeout <secs>", "how long to try to buy it", wholeNumber("a time", { min: 1 }), 120)
    .option("--json", "each step as one JSON object a line, and the outcome last")
    .addHelpText(
      "after",
      "\nPOSTERN_PAYER_KEY holds the payer's private key: 64 hex digits, with or without 0x.",
    )
    .action(async (job: URL | string, options: PayOptions, command: Command) => {
      requireOneBody(command, options);
      requirePlace(command, job, options);
      const { pay } = await import("./pay.ts");
      deps.exitWith(await pay(deps, job, options));
    });
}

function parseJob(text: string): URL | string {
  if (isJobName(text)) return text;
  if (text.includes("://")) return parseUrl(text);
  throw new InvalidArgumentError("a job is its http or https URL, or its name at --gateway");
}

/** Ends the command unless it is clear where the job is sold. */
function requirePlace(command: Command, job: URL | string, { gateway }: PayOptions): void {
  if (typeof job !== "string" && gateway !== undefined) usageError(command, "a URL needs no --gateway");
  if (typeof job === "string" && gateway === undefined)
    usageError(command, `"${job}" is a name: say with --gateway <url> where the job is sold`);
}

function parseHeader(text: string): string {
  if (/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return text;
  throw new InvalidArgumentError("a quote is base64");
}

function parseAmount(text: string): string {
  if (/^\d{1,60}(?:\.\d{1,36})?$/.test(text)) return text;
  throw new InvalidArgumentError("an amount is a decimal number, as 5 or 0.25");
}

function collectToken(text: string, before: Record<string, number> = {}): Record<string, number> {
  const [, asset, decimals] = /^(0x[0-9a-fA-F]{40})=(\d{1,2})$/.exec(text) ?? [];
  if (asset !== undefined && Number(decimals) <= 36) {
    return { ...before, [asset.toLowerCase()]: Number(decimals) };
  }
  throw new InvalidArgumentError("a token is its address, = and its decimals, as 0x…=6");
}
