import { sign, verify } from "@octokit/webhooks-methods";
import { EventWebhook } from "@sendgrid/eventwebhook";
import { verifyKey } from "discord-interactions";
import { Webhook } from "standardwebhooks";
import { expect, it } from "vitest";
import type { Occasion, Sender, Signed } from "../../../fixtures/senders/sender.ts";
import { withForeignKey } from "../../../fixtures/senders/sender.ts";
import { senderNamed } from "../../../fixtures/senders/senders.ts";

/** Libraries small enough to run in each test. `recorded/` has the verdicts of the others. */

const ID = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W";

const occasion = (sender: Sender): Occasion => ({ keys: [sender.key("current")], at: new Date(), id: ID });

const header = (request: Signed, wanted: string) =>
  request.headers.find(([name]) => name.toLowerCase() === wanted.toLowerCase())?.[1] ?? "";

/** Returns the sender's request, and one that a stranger signed. */
function requestsOf(name: string) {
  const sender = senderNamed(name);
  const on = occasion(sender);
  return {
    secret: on.keys[0].configured,
    own: sender.sign(sender.sample, on),
    foreign: sender.sign(sender.sample, withForeignKey(sender, on)),
  };
}

it.each(["github", "meta"])(
  "@octokit/webhooks-methods signs a body as %s does, and accepts it",
  async (name) => {
    const { secret, own, foreign } = requestsOf(name);
    const body = own.body.toString();

    expect(header(own, "X-Hub-Signature-256")).toBe(await sign(secret, body));
    await expect(verify(secret, body, header(own, "X-Hub-Signature-256"))).resolves.toBe(true);
    await expect(verify(secret, body, header(foreign, "X-Hub-Signature-256"))).resolves.toBe(false);
  },
);

it.each(["standard-webhooks", "openai", "gitlab (signing token)", "svix (headers without its name)"])(
  "standardwebhooks accepts a delivery of %s, and none that a stranger signed",
  (name) => {
    const { secret, own, foreign } = requestsOf(name);
    const webhook = new Webhook(secret);
    const verified = (request: Signed) => () =>
      webhook.verify(
        request.body,
        Object.fromEntries(request.headers.map(([key, value]) => [key.toLowerCase(), value])),
      );

    expect(verified(own)).not.toThrow();
    expect(verified(foreign)).toThrow("No matching signature found");
  },
);

it.each(["discord-interactions", "discord-events"])(
  "discord-interactions accepts a delivery of %s, and none that a stranger signed",
  async (name) => {
    const { secret, own, foreign } = requestsOf(name);
    const verified = (request: Signed) =>
      verifyKey(
        request.body,
        header(request, "X-Signature-Ed25519"),
        header(request, "X-Signature-Timestamp"),
        secret,
      );

    await expect(verified(own)).resolves.toBe(true);
    await expect(verified(foreign)).resolves.toBe(false);
  },
);

it("@sendgrid/eventwebhook accepts a delivery of sendgrid, and none that a stranger signed", () => {
  const { secret, own, foreign } = requestsOf("sendgrid");
  const library = new EventWebhook();
  const key = library.convertPublicKeyToECDSA(secret);
  const verified = (request: Signed) =>
    library.verifySignature(
      key,
      request.body,
      header(request, "X-Twilio-Email-Event-Webhook-Signature"),
      header(request, "X-Twilio-Email-Event-Webhook-Timestamp"),
    );

  expect(verified(own)).toBe(true);
  expect(verified(foreign)).toBe(false);
});
