import { GROUP, type ProgramCommand } from "../command.ts";
import { configDir, parseUrl, refuseValue, wholeNumber } from "../options.ts";
import { jsonOutput } from "../output-options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { SendOptions } from "./target.ts";

const REPEATS_MAX = 1000;

/** Adds `postern send` with its options. */
export function addSend(program: ProgramCommand, deps: ProgramDeps): void {
  program
    .command("send")
    .description("sign a sample webhook, send it to an endpoint, and show the outcome")
    .helpGroup(GROUP.try)
    .argument("<path>", "path of the endpoint, such as /hooks/github", parsePath)
    .option("--preset <name>", "preset of the sender (default: from the endpoint in webhooks.toml)")
    .option("--event <type>", "type of the event, such as push")
    .option(
      "--body <text>",
      "body of the request, or @file, or @- for stdin (default: a small sample for this sender)",
    )
    .option(
      "--secret <secret>",
      "secret as env:NAME or file:/path (default: from the endpoint in webhooks.toml)",
    )
    .option("--key <key>", "private key as env:NAME or file:/path, for senders that sign with one")
    .option(
      "--gateway <url>",
      "URL of the webhooks gateway (default: bind_address in webhooks.toml)",
      parseUrl,
    )
    .option("--delivery-id <id>", "id of the delivery (default: a new id)")
    .option(
      "--header <header>",
      "additional header as 'Name: value'; replaces a header of the sender with the same name",
      collectHeader,
    )
    .option("--repeat <n>", "send the request n more times", wholeNumber({ example: 3, max: REPEATS_MAX }), 0)
    .option("--dry-run", "print the request as a curl command, including its credential, and send nothing")
    .addOption(jsonOutput("print JSON, one object a line"))
    .addOption(configDir())
    .examples("send /hooks/github --event push", "send /hooks/github --dry-run")
    .action(async (path: string, options: SendOptions) => {
      const { sendSample } = await import("./send.ts");
      deps.exitWith(await sendSample(deps, path, options));
    });
}

function parsePath(text: string): string {
  if (/^\/[!-~]*$/.test(text) && !/[?#]/.test(text)) return text;
  return refuseValue("must start with / and contain no ? or #", "/hooks/github");
}

function collectHeader(text: string, before: [string, string][] = []): [string, string][] {
  const [, name, value] = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t -~]*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined)
    return refuseValue("must be 'Name: value' in ASCII", "'X-Request-Id: 1'");
  return [...before, [name, value]];
}
