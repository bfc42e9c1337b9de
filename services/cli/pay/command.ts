import { isJobName } from "../../../shared/call/job-ids.ts";
import { GROUP, type ProgramCommand } from "../command.ts";
import { bodyFile, parseUrl, refuseValue, usageError, waitOption, wholeNumber } from "../options.ts";
import { jsonOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { PayOptions } from "./pay.ts";

const ENVIRONMENT = `
Environment variables:
  POSTERN_PAYER_KEY  private key of the payer: 64 hex digits, with or without 0x`;

/**
 * Adds `postern pay` with its options. No option takes the payer's private key, because other users of the machine can
 * read the command line. It comes from an environment variable.
 */
export function addPay(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("pay")
    .description("pay for a job, up to a cap, and print its output")
    .helpGroup(GROUP.try)
    .argument("<job>", "URL of the job, or its name with --gateway", parseJob)
    .option(
      "--gateway <url>",
      "URL of the payment gateway that sells the job, such as http://127.0.0.1:8402",
      parseUrl,
    )
    .option("--body <text>", "body of the request")
    .addOption(bodyFile("file with the body of the request"))
    .option(
      "--content-type <type>",
      "content type of the body (default: application/json for JSON, else text/plain)",
    )
    .option("--max <amount>", "highest price to pay, in tokens, such as 5 or 0.25", parseAmount, "1")
    .option(
      "--token <asset=decimals>",
      "contract address and decimals of another token to pay with, such as 0x7f5c…=6",
      collectToken,
    )
    .option("--quote <header>", "quote to use: the X-PLATFORM-QUOTE that postern quote prints", parseHeader)
    .addOption(waitOption("seconds to wait for the output after the payment; 0 does not wait"))
    .option("--timeout <secs>", "seconds to keep trying to pay", wholeNumber({ example: 60, min: 1 }), 120)
    .addOption(jsonOutput("print JSON, one object a line: each step, then the outcome"))
    .addHelpText("after", ENVIRONMENT)
    .examples(
      "pay http://127.0.0.1:8402/x402/jobs/0/1 --body hi",
      "pay echo --gateway http://127.0.0.1:8402 --max 0.25",
    )
    .action(async (job: URL | string, options: PayOptions, command: ProgramCommand) => {
      requireOneJobUrl(command, job, options);
      const { pay } = await import("./pay.ts");
      deps.exitWith(await pay(deps, job, options));
    });
}

function parseJob(text: string): URL | string {
  if (isJobName(text)) return text;
  if (text.includes("://")) return parseUrl(text);
  return refuseValue(
    "must be an http or https URL, or the name of a job with --gateway",
    "http://127.0.0.1:8402/x402/jobs/0/1",
  );
}

/** Ends the command with a usage error unless the job is given by its URL alone, or by its name together with --gateway. */
function requireOneJobUrl(command: ProgramCommand, job: URL | string, { gateway }: PayOptions): void {
  if (typeof job !== "string" && gateway !== undefined)
    usageError(command, "--gateway cannot be used with the URL of a job");
  if (typeof job === "string" && gateway === undefined)
    usageError(command, `"${job}" is the name of a job, which requires --gateway <url>`);
}

function parseHeader(text: string): string {
  if (/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return text;
  return refuseValue("must be a quote in base64, as postern quote prints it", "eyJ…");
}

function parseAmount(text: string): string {
  if (/^\d{1,60}(?:\.\d{1,36})?$/.test(text)) return text;
  return refuseValue("must be a decimal number", "5 or 0.25");
}

function collectToken(text: string, before: Record<string, number> = {}): Record<string, number> {
  const [, asset, decimals] = /^(0x[0-9a-fA-F]{40})=(\d{1,2})$/.exec(text) ?? [];
  if (asset !== undefined && Number(decimals) <= 36) {
    return { ...before, [asset.toLowerCase()]: Number(decimals) };
  }
  return refuseValue("must be a token: its address, = and its decimals", "0x7099…=6");
}
