import { randomUUID } from "node:crypto";
import { spawnChild } from "../../shared/dev/child.ts";
import { exampleBody } from "../../shared/dev/config.ts";
import { findProgram } from "../../shared/dev/find-program.ts";
import { readyCurl } from "../../shared/dev/ready-commands.ts";
import { beforeDeadline } from "../../shared/dev/wait.ts";
import type { Demo } from "./demo.ts";
import type { AcceptedCall, Answered, Webhook } from "./sender.ts";
import { shortId } from "./show.ts";

/** Keccak-256 of the five bytes "hello", as published in many places; not computed by our code. */
export const KECCAK256_OF_HELLO = "0x1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8";

/** Prints a signed curl and runs that very line; without curl, sends the same request. */
export async function signedCurl(demo: Demo): Promise<void> {
  const { show, parts, runner, ledger, world, sender } = demo;
  show.scenario("A signed webhook, ready to paste");
  const endpoint = demo.endpoint("hmac-sha256");
  const body = exampleBody(endpoint.job_id);
  const line = readyCurl(endpoint, { address: parts.webhooks.address, body }) ?? "";
  show.say("");
  show.say(line);
  show.say("");

  const hasCurl = findProgram(["curl"], world.env) !== undefined;
  const webhook = { endpoint, body };
  const answer = hasCurl ? await runCurl(demo, line, webhook) : await sender.send(webhook);
  const by = hasCurl ? "this line, run in a shell," : "there is no curl here; the same request";
  show.check(`${by} is answered 202: call ${shortId(answer.callId)} is on disk`, answer.status, 202);

  const call = ledger.accepted.get(answer.callId);
  if (call !== undefined) await runner.untilDone([call]);
  show.check("the runner has run it", await runner.stateOf(answer.callId), "done");
}

/** `curl -i` prints the status line, the headers, an empty line and the body. */
async function runCurl({ sender, world }: Demo, line: string, webhook: Webhook): Promise<Answered> {
  const output: string[] = [];
  const env = { ...world.env, NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" };
  const onLine = (text: string, from: "stdout" | "stderr") => from === "stdout" && output.push(text);
  const shell = spawnChild({ command: "sh", args: ["-c", line], env, detached: true, onLine });
  await beforeDeadline("curl ends", shell.exit);
  const status = Number(/^HTTP\/\S+ (\d{3})/.exec(output[0] ?? "")?.[1] ?? 0);
  const text = output.slice(output.indexOf("") + 1).join("\n");
  return sender.count(webhook, { status, headers: {}, text });
}

const SLOW_STEPS = 3;

/** One call by each way to authenticate, and its result at the runner; then a delivery that comes twice. */
export async function fourCredentials(demo: Demo): Promise<void> {
  const { show, sender, runner, world, endpoint } = demo;
  show.scenario("Four ways to authenticate, and the results at the runner");
  // New in every run, because the Redis of REDIS_URL remembers the deliveries of earlier ones.
  const delivery = { "X-Delivery-Id": randomUUID() };
  const send = async (webhook: Webhook): Promise<AcceptedCall> => {
    const { path, auth } = webhook.endpoint;
    const answer = await sender.send(webhook);
    const { status, callId } = answer;
    show.check(`202  ${auth.padEnd(12)} ${path.padEnd(15)} call ${shortId(callId)}`, status, 202);
    return sender.accepted(answer);
  };
  const open = await send({ endpoint: endpoint("none"), body: "no credential, here" });
  const bearer = await send({
    endpoint: endpoint("bearer"),
    body: '{"sent":"with a bearer token"}',
    headers: delivery,
  });
  const hmac = await send({ endpoint: endpoint("hmac-sha256"), body: "hello", contentType: "text/plain" });
  const apiKey = await send({ endpoint: endpoint("api-key"), body: `{"steps":${SLOW_STEPS}}` });
  await runner.untilDone([open, bearer, hmac, apiKey]);

  for (const call of [open, bearer]) {
    const { text } = await runner.askAgain(call);
    const statement = `echo      of ${call.path.padEnd(15)} answered the body as it was sent: ${call.body}`;
    show.check(statement, text, call.body);
  }
  const { keccak256 } = JSON.parse((await runner.askAgain(hmac)).text);
  show.check(`keccak256 of "hello" is ${KECCAK256_OF_HELLO}`, keccak256, KECCAK256_OF_HELLO);
  const last = await world.logs.runner.first(
    "the slow job's last step in the log",
    ({ event, callId, step }) =>
      event === "job.progressed" && callId === apiKey.callId && step === SLOW_STEPS,
  );
  const progress = `slow      told its progress in the log, ${SLOW_STEPS} steps of ${SLOW_STEPS}`;
  show.check(progress, last["steps"], SLOW_STEPS);
  show.log("runner", last);

  const again = await sender.send({ endpoint: endpoint("bearer"), body: bearer.body, headers: delivery });
  show.check(
    "the bearer delivery, sent again under its delivery id, is the same call",
    [again.status, again.callId, again.headers["idempotent-replayed"]],
    [202, bearer.callId, "true"],
  );
}

/** A signature of other bytes: the sender learns that it is refused, the operator learns why. */
export async function badSignature({ show, sender, world, endpoint }: Demo): Promise<void> {
  show.scenario("A bad signature is refused, and only the log says why");
  const hmac = endpoint("hmac-sha256");
  const wrong = { "X-Signature-256": `sha256=${"0".repeat(64)}` };
  const { status, headers, text } = await sender.send({ endpoint: hmac, body: "hello", headers: wrong });
  const { detail, error } = JSON.parse(text) as Record<string, unknown>;
  show.check(`it is answered 401, with the challenge ${headers["www-authenticate"]}`, status, 401);
  const wanted = ["X-Signature-256", "X-Hub-Signature-256", "X-Webhook-Signature"];
  const told = `unauthorized; wanted: ${wanted.join(", ")}; came: X-Signature-256`.toLowerCase();
  show.check(`the sender is told: ${detail}`, [detail, error], [told, told]);

  const refusal = await world.logs.webhooks.first(
    "webhook.refused in the gateway's log",
    ({ event, path }) => event === "webhook.refused" && path === hmac.path,
  );
  show.check("the gateway's log names the reason: mismatch", refusal["reason"], "mismatch");
  show.log("webhooks", refusal);
  show.check("the answer to the sender does not", text.includes("mismatch"), false);
}
