import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { spawnChild } from "../../shared/dev/child.ts";
import { findProgram } from "../../shared/dev/find-program.ts";
import { EventLog, type LoggedEvent, type Part, startProcess } from "../../shared/dev/process.ts";
import { credentialHeader, readyCurl } from "../../shared/dev/ready-commands.ts";
import { beforeDeadline, eventually } from "../../shared/dev/wait.ts";
import { PROGRAM_OF_CLONE } from "../../shared/lifecycle/environment.ts";
import { shellLine, shellQuote } from "../../shared/text/shell-quote.ts";
import type { DevStack } from "../dev/dev-stack.ts";
import { httpRequest, jsonOf, type Reply } from "./http.ts";
import type { RedisView } from "./redis-view.ts";
import type { Shop } from "./shop.ts";
import type { Show } from "./show.ts";

/** Everything that a chapter needs to show something. */
export type Demo = {
  readonly show: Show;
  readonly stack: DevStack;
  readonly runner: Part;
  readonly redis: RedisView;
  readonly log: DemoLog;
  readonly webhooks: Answers;
  /** Undefined without a devnet: nothing is sold. */
  readonly shop: Shop | undefined;
  /** The environment of the parts and of commands. */
  readonly env: NodeJS.ProcessEnv;
};

/** A call that was accepted, and the body that the runner must get. */
export type Call = { readonly callId: string; readonly body: string };

/** How the demo's webhooks were answered. */
export type Answers = {
  sent: number;
  /** Ids of the calls that were answered with success. */
  readonly accepted: Set<string>;
  /** Success for a delivery that was known. */
  repeats: number;
  /** Success for an event that the endpoint drops. */
  dropped: number;
  refused: number;
};

export function noAnswers(): Answers {
  return { sent: 0, accepted: new Set(), repeats: 0, dropped: 0, refused: 0 };
}

/** The log of all parts, over all their restarts. */
export class DemoLog extends EventLog {
  /** The first match, logged already or yet to come. Rejects, saying what was awaited, after the deadline. */
  await(what: string, matches: (event: LoggedEvent) => boolean): Promise<LoggedEvent> {
    return beforeDeadline(what, this.first(matches, new Promise<never>(() => {})));
  }

  /** The first event of that name for this call. */
  ofCall(name: string, id: string): Promise<LoggedEvent> {
    return this.await(`${name} of ${id} in the log`, ({ event, callId }) => event === name && callId === id);
  }

  /** How often the runner has run each call to its end. An answer from memory is no run. */
  runs(): Map<string, number> {
    const runs = new Map<string, number>();
    for (const { callId, replayed } of this.named("job.finished"))
      if (replayed !== true) runs.set(String(callId), (runs.get(String(callId)) ?? 0) + 1);
    return runs;
  }
}

export type Webhook = {
  endpoint: EndpointToml;
  body: string;
  /** The body that the credential is made for, if it is another one. */
  signedBody?: string;
  headers?: Readonly<Record<string, string>>;
};

type Answered = Reply & { callId: string };

/** The endpoint of this path. */
export function endpointAt({ stack }: Demo, path: string): EndpointToml {
  const endpoint = stack.config.webhooks?.endpoints.find((each) => each.path === path);
  if (endpoint === undefined) throw new Error(`expected: an endpoint at ${path}`);
  return endpoint;
}

/** Sends a webhook with its endpoint's credential, and counts the answer. */
export async function send(demo: Demo, webhook: Webhook): Promise<Answered> {
  const { endpoint, body, signedBody = body, headers } = webhook;
  const credential = credentialHeader(endpoint, signedBody);
  const reply = await httpRequest(`http://${demo.stack.parts.webhooks.address}${endpoint.path}`, {
    headers: {
      "Content-Type": "application/json",
      ...(credential && { [credential.name]: credential.value }),
      ...headers,
    },
    body,
  });
  return count(demo, reply);
}

/** Shows the curl that sends this webhook, runs that very line in a shell, and counts the answer. Without curl, sends the same request. */
export async function curl(demo: Demo, webhook: Webhook): Promise<Answered> {
  const line = curlLine(demo, webhook);
  demo.show.command(line);
  if (findProgram(["curl"], demo.env) === undefined) {
    demo.show.say("there is no curl here, so the demo sends the same request itself");
    return send(demo, webhook);
  }
  const output: string[] = [];
  const env = { ...demo.env, NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" };
  const onLine = (text: string, from: "stdout" | "stderr") => from === "stdout" && output.push(text);
  await beforeDeadline(
    "curl ends",
    spawnChild({ command: "sh", args: ["-c", line], env, detached: true, onLine }).exit,
  );
  return count(demo, readOutput(output));
}

function curlLine({ stack }: Demo, { endpoint, body, signedBody = body, headers = {} }: Webhook): string {
  const { address } = stack.parts.webhooks;
  const line = readyCurl(endpoint, { address, body: signedBody }) ?? "";
  const more = Object.entries(headers).map(([name, value]) => ` -H ${shellQuote(`${name}: ${value}`)}`);
  return [line.replace(shellQuote(signedBody), () => shellQuote(body)), ...more].join("");
}

/** `curl -i` prints the status line, the headers, an empty line and the body. */
function readOutput(output: readonly string[]): Reply {
  const end = output.indexOf("");
  const headers = output.slice(1, end).map((line) => line.split(/: (.*)/, 2) as [string, string]);
  return {
    status: Number(/^HTTP\/\S+ (\d{3})/.exec(output[0] ?? "")?.[1] ?? 0),
    headers: new Headers(headers),
    text: output.slice(end + 1).join("\n"),
  };
}

function count({ webhooks }: Demo, reply: Reply): Answered {
  const callId = String(jsonOf(reply)["call_id"] ?? "");
  webhooks.sent += 1;
  if (reply.status < 200 || reply.status >= 300) webhooks.refused += 1;
  else if (callId === "") webhooks.dropped += 1;
  else if (webhooks.accepted.has(callId)) webhooks.repeats += 1;
  else webhooks.accepted.add(callId);
  return { ...reply, callId };
}

/** The state of a call at the runner, or `unknown`. */
export async function stateAtRunner({ runner }: Demo, callId: string): Promise<string> {
  return String((await atRunner(runner, callId))["state"] ?? "unknown");
}

/** Resolves once the runner lists all of these calls as done, with the very bytes that were sent. Rejects at once if one was not accepted. */
export async function untilDone({ runner }: Demo, calls: readonly Call[]): Promise<void> {
  for (const { callId, body } of calls) {
    if (callId === "") throw new Error("expected: a call; the webhook was not accepted");
    await eventually(`the runner lists ${callId} as done, with the bytes that were sent`, async () => {
      const { state, sha256 } = await atRunner(runner, callId);
      return state === "done" && sha256 === sha256Hex(Buffer.from(body));
    });
  }
}

async function atRunner({ address }: Part, callId: string) {
  const reply = await httpRequest(`http://${address}/calls/${callId}`);
  return reply.status === 200 ? jsonOf(reply) : {};
}

/** Runs a command of `postern` that reads the configuration of the stack, and shows it and its output. */
export function postern(demo: Demo, ...args: readonly string[]) {
  const all = [...args, "--config-dir", demo.stack.config.dir];
  return runPostern(demo, all, `${PROGRAM_OF_CLONE} ${shellLine(all)}`);
}

/** Runs `postern` as its user would, and shows the line that a terminal takes, and its output. */
export async function runPostern(
  { show, env }: Demo,
  args: readonly string[],
  line: string,
  more: NodeJS.ProcessEnv = {},
) {
  show.command(line);
  const lines: string[] = [];
  const onLine = (text: string) => lines.push(text);
  const command = startProcess({ name: "postern", args, env: { ...env, ...more }, detached: true, onLine });
  const { code } = await beforeDeadline(`postern ${args.join(" ")} ends`, command.exit);
  show.output(lines);
  return { exitCode: code, text: lines.join("\n") };
}
