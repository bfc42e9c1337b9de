import { beforeAll, describe, expect, test } from "vitest";
import type { ConfigTables } from "../../../../shared/config/config-tables.ts";
import { PRESETS } from "../../../../shared/webhook-auth/presets/presets.ts";
import { SAMPLES } from "../../../../shared/webhook-auth/sample/samples.ts";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { endpointFor, sendersWithPreset } from "../../../fixtures/senders/endpoints.ts";
import type { Sender } from "../../../fixtures/senders/sender.ts";
import { senderNamed } from "../../../fixtures/senders/senders.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { LONG_RUN } from "../../../support/long-run.ts";
import { runHere } from "../run-here.ts";

const webhooks = useWebhooks();
let gateway: TestWebhooks;
const pathOf = (sender: Sender) => `/s/${sendersWithPreset.indexOf(sender)}`;

/** Variants of a preset that only a configuration can choose, and senders that sign another URL than they send to. */
const isConfigured = ({ name, publicUrl }: Sender) =>
  publicUrl !== undefined ||
  [
    "alertmanager (basic)",
    "tradingview (secret in the body)",
    "buildkite (token)",
    "grafana (with a timestamp header)",
    "polar (secret that is text)",
    "google-pubsub",
  ].includes(name);
/** One sender for each kind of signature or credential. The others are tested in the long run only. */
const OF_EACH_KIND = [
  ...["github", "shopify", "standard-webhooks", "gitlab (signing token)", "slack", "stripe", "hubspot-v1"],
  ...["discord-interactions", "sendgrid", "linear", "moralis", "mailgun", "datadog", "telegram", "postmark"],
  ...["azure-event-grid", "microsoft-graph", "cloudevents (binary)", "square", "twilio (form)"],
  ...["alertmanager (basic)", "buildkite (token)", "google-pubsub"],
];
const tested = LONG_RUN ? sendersWithPreset : OF_EACH_KIND.map(senderNamed);
const senders = tested.filter((sender) => !isConfigured(sender));
const configured = tested.filter(isConfigured);

const endpointOf = (sender: Sender) => endpointFor(sender, pathOf(sender), [sender.key("new").configured]);

const postern = usePostern(() => ({
  postern: { redis: { url: "redis://127.0.0.1:1" } },
  webhooks: { endpoints: configured.map(endpointOf) } as ConfigTables["webhooks"] & object,
}));

beforeAll(async () => {
  const endpoints = tested.map(endpointOf);
  gateway = await webhooks.start({ endpoints, webhooks: { refusals_per_minute: 1000 } });
});

const successOf = ({ preset }: Sender) => PRESETS[preset]?.endpoint.answer?.status ?? 202;

/** Prepares a delivery as the command line of `postern send` does, without a request to the gateway. */
async function sendAs(sender: Sender, ...more: string[]) {
  const { configured, signing } = sender.key("new");
  const key = configured === signing ? [] : ["--key", "env:KEY"];
  const args = ["send", pathOf(sender), "--preset", sender.preset, "--secret", "env:SECRET", ...key];
  const url = ["--gateway", `http://${gateway.address}`];
  const ran = await runHere([...args, ...url, "-o", "json", ...more], { SECRET: configured, KEY: signing });
  const [line] = jsonLines(ran);
  return { ...ran, status: (line?.["answer"] as { status?: number } | undefined)?.status };
}

/** Presets whose certificates' keys only the sender has. */
const UNSENDABLE = ["aws-sns", "paypal"];

test("every preset has a sample, or says why no delivery can be made", async () => {
  expect([...Object.keys(SAMPLES), ...UNSENDABLE].sort()).toEqual(Object.keys(PRESETS).sort());
  for (const preset of UNSENDABLE) {
    const ran = await runHere(["send", "/sns", "--preset", preset, "--gateway", "http://127.0.0.1:1"]);
    expect([ran.code, ran.stderr]).toEqual([
      1,
      expect.stringMatching(/only (Amazon SNS|PayPal) can sign its/),
    ]);
  }
});

describe.each(senders.map((sender) => [sender.name, sender] as const))("%s", (_name, sender) => {
  test("is signed so that the gateway accepts it", async () => {
    const { status, stderr, stdout } = await sendAs(sender);
    expect([status, stderr]).toEqual([successOf(sender), ""]);
    expect(stdout).not.toContain(sender.key("new").signing);
    const call = await webhooks.onlyCall();
    const { delivery_id, event_type } = PRESETS[sender.preset]?.endpoint ?? {};
    if (delivery_id !== undefined) expect(call.metadata["X-WEBHOOK-DELIVERY-ID"]).toBeDefined();
    if (event_type !== undefined) expect(call.metadata["X-WEBHOOK-EVENT"]).toBeDefined();
  });

  if (!sender.bodyUnbound)
    test("is refused if a byte of it is changed after it was signed", async () => {
      const { stdout } = await sendAs(sender, "--dry-run");
      const { request } = jsonLines({ stdout })[0] as {
        request: { url: string; headers: Record<string, string>; body: string };
      };
      const url = `http://${gateway.address}${new URL(request.url).pathname}`;
      const body = request.body.replace(/[a-z](?=[^a-z]*$)/, "Z");
      expect(body).not.toBe(request.body);
      const answer = await fetch(url, { method: "POST", headers: request.headers, body });
      expect(answer.status).toBe(401);
    });
});

test.each(configured.map((sender) => [sender.name, sender] as const))(
  "%s is signed as its endpoint is configured, so that the gateway accepts it",
  async (_name, sender) => {
    const { configured, signing } = sender.key("new");
    const key = configured === signing ? [] : ["--key", "env:KEY"];
    const args = ["send", pathOf(sender), "--config-dir", postern.configDir, "-o", "json", ...key];
    const ran = await runHere([...args, "--gateway", `http://${gateway.address}`], { KEY: signing });
    expect(ran.stderr).toBe("");
    expect(jsonLines(ran)[0]).toMatchObject({ answer: { status: successOf(sender) } });
    await webhooks.onlyCall();
  },
);
