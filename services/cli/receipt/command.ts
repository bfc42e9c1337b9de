import { GROUP, type ProgramCommand } from "../command.ts";
import { parseUrl } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { VerifyOptions } from "./verify.ts";

/** Adds `postern receipt` with its subcommands and their options. */
export function addReceipt(program: ProgramCommand, deps: ProgramDeps): void {
  const receipt = program
    .command("receipt")
    .description("verify a receipt of a payment gateway")
    .helpGroup(GROUP.try);
  receipt
    .command("verify")
    .description("verify a receipt by the keys that its gateway publishes, and print what it says")
    .helpGroup(GROUP.try)
    .argument("<file>", "file with the 202 answer, the receipt of a result, or a JWS alone")
    .requiredOption("--issuer <url>", "public_url of the gateway that must have signed it", parseIssuer)
    .option(
      "--keys <file>",
      "file with the gateway's /.well-known/jwks.json; without it, the keys are fetched",
    )
    .option("--content <file>", "file with the body or the result, which the receipt must be about")
    .examples("receipt verify answer.json --issuer https://jobs.example.com")
    .action(async (file: string, options: VerifyOptions) => {
      const { verifyFile } = await import("./verify.ts");
      deps.exitWith(await verifyFile(deps, file, options));
    });
}

/**
 * Parses the URL of the gateway that issued the receipt. Removes a slash at its end, because receipts contain the URL
 * without that slash.
 */
function parseIssuer(text: string): string {
  parseUrl(text);
  return text.replace(/\/$/, "");
}
