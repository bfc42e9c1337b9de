import { GROUP, type ProgramCommand } from "../command.ts";
import { refuseValue, usageError, waitOption } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { ResultOptions } from "./result.ts";

const HELP = `
Where to find them:
  The 202 answer to a request has result_url and result_token (rt_...) of its
  call, and postern pay -o json prints both. Without -o json, postern pay prints
  the whole command. For a webhook, result_url is a path: put the address of its
  gateway before it.

Environment variables:
  POSTERN_RESULT_TOKEN  result token: result_token of the 202
  POSTERN_PAYER_KEY     private key of the payer, who signs in if the token is
                        missing or refused`;

/**
 * Adds `postern result` with its options. No option takes the token, because other users of the machine can read the
 * command line.
 */
export function addResult(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("result")
    .description("fetch and print the result of a call")
    .helpGroup(GROUP.try)
    .argument(
      "<url>",
      "result_url of the call's 202 answer: http://127.0.0.1:8402/x402/calls/<call id>/result",
      parseResultUrl,
    )
    .option("--token-file <file>", "file with the result token")
    .addOption(waitOption("seconds to wait for a call that has not ended; 0 does not wait"))
    .addHelpText("after", HELP)
    .examples("result http://127.0.0.1:8402/x402/calls/c_4f1b/result")
    .action(async (url: URL, options: ResultOptions, command: ProgramCommand) => {
      if (url.searchParams.has("token"))
        usageError(command, "pass the token in POSTERN_RESULT_TOKEN or --token-file, not in the URL");
      const { showResult } = await import("./result.ts");
      deps.exitWith(await showResult(deps, url, options));
    });
}

/**
 * Parses the URL of a result. If the text is not such a URL, the error shows an example of one. For the example it uses
 * the call id in the text, if there is one. It also guesses from the text whether a webhooks gateway or a payment
 * gateway is meant.
 */
function parseResultUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.pathname.endsWith("/result")) return url;
  const [id = "c_…"] = /c_[0-9a-f]{32}/.exec(text) ?? [];
  const gateway = text.includes("/webhooks/")
    ? "http://127.0.0.1:9090/webhooks"
    : "http://127.0.0.1:8402/x402";
  return refuseValue("must be the result_url of a call's 202 answer", `${gateway}/calls/${id}/result`);
}
