import { expect, test } from "vitest";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines } from "../../../fixtures/postern.ts";
import { runHereWith } from "../run-here.ts";

const payments = usePayments();
const run = runHereWith(payments.postern);
const UNKNOWN = `c_${"0".repeat(32)}`;

test("postern payments show prints state, terms, settlement and body size, and exits with 1 for an unknown id", async () => {
  const id = await payments.buy();
  const text = (await run(["payments", "show", id])).stdout;
  for (const part of [
    id,
    "queued since",
    payments.payer.address.toLowerCase(),
    "3.2 USDC",
    "body ",
    "5 bytes",
  ]) {
    expect(text).toContain(part);
  }
  const [json] = jsonLines(await run(["payments", "show", id, "-o", "json"]));
  expect(json).toMatchObject({ call_id: id, state: "queued", dispatches: 1, terms: { body_bytes: 5 } });
  expect(json?.["settlement"]).toMatchObject({ by: "facilitator" });
  const ran = await run(["payments", "show", UNKNOWN]);
  expect(ran).toMatchObject({ code: 1, stdout: "" });
  expect(ran.stderr).toMatch(/is unknown: .* its call ended more than 30 days ago/);
});
