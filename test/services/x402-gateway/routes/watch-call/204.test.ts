import { expect, test } from "vitest";
import { useBoughtCalls } from "../../../../fixtures/bought-call.ts";
import { useX402 } from "../../../../fixtures/x402.ts";
import { readStream } from "../../../../support/event-source.ts";

const fixture = useX402();
const calls = useBoughtCalls(fixture);

test("a client that was told the end, and comes again with its id, gets 204", async () => {
  const x402 = await fixture.gateway();
  const { id, token } = await calls.ended(x402, async () => ({ status: 200, body: "done" }));
  const url = `http://${x402.address}/x402/calls/${id}/events`;
  const first = await readStream(url, { token });
  await first.ended;
  const lastEventId = first.events.at(-1)?.id ?? "";
  expect((await readStream(url, { token, lastEventId })).status).toBe(204);
  expect((await readStream(url, { lastEventId })).status, "who proves nothing was told less").toBe(200);
});
