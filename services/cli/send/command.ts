import { type Command, InvalidArgumentError } from "commander";
import { configDir, parseUrl, wholeNumber } from "../options.ts";
import type { ProgramDeps } from "../program-deps.ts";
import type { SendOptions } from "./target.ts";

const REPEATS_MAX = 1000;

/** `postern send` and its options. */
export function addSend(program: Command, deps: ProgramDeps): void {
  program
    .command("send")
    .description("sign a sample webhook as its sender would, send it to an endpoint, and say what came of it")
    .argument("<path>", "the endpoint's path, as /hooks/github", parsePath)
    .option("--preset <name>", "the sender (default: the endpoint's in webhooks.toml)")
    .option("--event <type>", "the type of the event, as push")
    .option("--body <text>", "the body, or @file, or @- for stdin (default: a small sample of this sender)")
    .option("--secret <secret>", "env:NAME or file:/path (default: the endpoint's in webhooks.toml)")
    .option("--key <key>", "the private key, if this sender signs with one: env:NAME or file:/path")
    .option("--url <url>", "where the gateway is (default: bind_address in webhooks.toml)", parseUrl)
    .option("--id <id>", "the delivery's id (default: a new one)")
    .option(
      "--header <header>",
      "one more header, as 'Name: value'; it wins over the sender's",
      collectHeader,
    )
    .option(
      "--repeat <n>",
      "send the same again so many times",
      wholeNumber("a count", { max: REPEATS_MAX }),
      0,
    )
    .option("--dry-run", "print the request as a curl command, with its credential, and send nothing")
    .option("--json", "one JSON object for each request")
    .addOption(configDir())
    .action(async (path: string, options: SendOptions) => {
      const { sendSample } = await import("./send.ts");
      deps.exitWith(await sendSample(deps, path, options));
    });
}

function parsePath(text: string): string {
  if (/^\/[!-~]*$/.test(text) && !/[?#]/.test(text)) return text;
  throw new InvalidArgumentError("a path begins with /, and holds no ? and no #");
}

function collectHeader(text: string, before: [string, string][] = []): [string, string][] {
  const [, name, value] = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t -~]*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new InvalidArgumentError("a header is 'Name: value', in ASCII");
  return [...before, [name, value]];
}
