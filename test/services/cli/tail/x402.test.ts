import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { useX402 } from "../../../fixtures/x402.ts";
import { runHereWith } from "../run-here.ts";

const ends = useEnds();
const fixture = useX402();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));

test("postern tail shows an accepted payment, and a refused one with its code", async () => {
  const x402 = await fixture.gateway();
  const lines: string[] = [];
  const ran = runHereWith(postern)(["tail", "--origin", "x402"], {}, {}, (line) => void lines.push(line));
  ends.defer(async () => {
    process.emit("SIGHUP", "SIGHUP");
    await ran;
  });
  await eventually("it follows", () => lines.some((line) => /^following: .*payment gateway/.test(line)));

  const payment = await x402.pay({ payer: fixture.payer });
  const { call_id } = (await x402.post(payment)).json<{ call_id: string }>();
  expect((await x402.post({ "PAYMENT-SIGNATURE": "AAAA" })).status).toBe(402);

  const events = () =>
    lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line) as Record<string, unknown>);
  await eventually("both are shown", () => events().length === 2);
  expect(events()).toMatchObject([
    { outcome: "accepted", origin: "x402", call_id, job: "1/7", replayed: false },
    { outcome: "refused", origin: "x402", code: "payment.malformed", job: "1/7", times: 1 },
  ]);
  expect(lines.join("\n")).not.toContain(String(payment["PAYMENT-SIGNATURE"]));
});
