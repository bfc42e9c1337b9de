import { request } from "node:http";
import { describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { JOB_PATH } from "../support/x402.ts";
import { PRICE, useLab } from "./lab.ts";

const lab = useLab();

/** Begins a request and hangs up once `until` says so; `whole` is whether its body was sent to the end. */
async function hangUp(
  address: string,
  headers: Readonly<Record<string, string>>,
  { whole, until }: { whole: boolean; until: () => Promise<unknown> },
): Promise<void> {
  const [host, port] = address.split(":");
  const length = { "Content-Length": "5" };
  const sent = request({
    host,
    port,
    method: "POST",
    path: JOB_PATH,
    headers: { ...headers, ...length },
    agent: false,
  });
  sent.on("error", () => {});
  await new Promise<void>((flushed) => sent.write(whole ? "hello" : "hel", () => flushed()));
  if (whole) sent.end();
  await until();
  sent.destroy();
}

describe("a client that goes away", () => {
  test.each(["verify", "settle"] as const)(
    "while the facilitator is asked to %s: its payment is one charge and one job",
    async (on) => {
      const x402 = await lab.gateway();
      const header = await x402.pay({ payer: lab.payer });
      await lab.devnet.control.fault({ on, kind: "slow", delayMs: 500, times: 1 });
      const asked = () => eventually("the facilitator is asked", async () => (await lab.asked())[on] === 1);
      await hangUp(x402.address, header, { whole: true, until: asked });
      await eventually("its call waits", async () => (await x402.waiting()).length === 1);
      const again = await x402.post(header);
      expect([again.status, again.json()["call_id"]]).toEqual([202, (await x402.waiting())[0]?.id]);
      expect(await lab.charged()).toEqual([PRICE]);
    },
  );

  test("before its body was whole: nobody is asked and nothing is charged", async () => {
    const x402 = await lab.gateway();
    const header = await x402.pay({ payer: lab.payer });
    await hangUp(x402.address, header, { whole: false, until: async () => {} });
    await eventually("it is refused", () => x402.log.events.some(({ event }) => event === "payment.refused"));
    expect([await lab.asked(), await lab.charged()]).toEqual([{ verify: 0, settle: 0 }, []]);
    expect((await x402.post(header)).status).toBe(202);
  });
});
