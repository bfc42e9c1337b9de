import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { handshakes } from "../../../fixtures/senders/handshakes.ts";
import type { Recorded } from "../../../fixtures/senders/recorded/make.ts";
import type { Key } from "../../../fixtures/senders/sender.ts";
import { senderNamed } from "../../../fixtures/senders/senders.ts";

const folder = new URL("../../../fixtures/senders/recorded/", import.meta.url);
const files = readdirSync(folder).filter((file) => file.endsWith(".json"));

/** `recorded/make.ts` has checked these requests with the senders' own libraries. */
describe.each(files)("what is recorded in %s", (file) => {
  const recorded: Recorded = JSON.parse(readFileSync(new URL(file, folder), "utf8"));
  const requests = recorded.requests.map((one) => ({ ...one, live: one.keys.length }));

  it.each(requests)(
    `is what $sender sends under $live keys, and ${recorded.library} ${recorded.verdict}`,
    (one) => {
      const [first, ...more] = one.keys as [Key, ...Key[]];
      const on = { keys: [first, ...more] as const, at: new Date(one.at), id: one.id };

      const signed = senderNamed(one.sender).sign(Buffer.from(one.sample), on);

      expect({ ...signed, body: signed.body.toString() }).toEqual({ method: "POST", ...one.request });
    },
  );

  it.each(recorded.answers ?? [])(`has ${recorded.library}'s answer when $handshake`, (one) => {
    const [key] = one.keys as [Key, ...Key[]];
    const asked = handshakes.find(({ name }) => name === one.handshake);

    const wanted = asked?.want({ keys: [key], at: new Date(one.at), id: one.id });

    expect(wanted?.body).toEqual({ json: one.json });
  });
});
