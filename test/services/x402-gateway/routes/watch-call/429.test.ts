import { expect, test } from "vitest";
import { useBoughtCalls } from "../../../../fixtures/bought-call.ts";
import { useX402 } from "../../../../fixtures/x402.ts";
import { readStream } from "../../../../support/event-source.ts";

const fixture = useX402();
const calls = useBoughtCalls(fixture);

test("a stream beyond what a call may have is 429, and says when to come again", async () => {
  const x402 = await fixture.gateway({ streams: { streamsMax: 10, perCallMax: 1 } });
  const { id, token, ask } = await calls.buy(x402);
  const first = await readStream(`http://${x402.address}/x402/calls/${id}/events`, { token });
  expect(first.status).toBe(200);
  const answer = await ask("/events");
  expect([answer.status, answer.json()["code"]]).toEqual([429, "request.rate_limited"]);
  expect(answer.headers["retry-after"]).toBe("10");
  expect((await ask("")).status, "its state can be asked for").toBe(200);
  first.close();
});
