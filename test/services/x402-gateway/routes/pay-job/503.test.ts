import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import type { TestX402, TestX402Options } from "../../../../fixtures/x402.ts";
import { PRICE, useX402 } from "../../../../fixtures/x402.ts";

const fixture = useX402();

type Pressure = NonNullable<ReturnType<TestX402["gateway"]["pressure"]>>;

const limits: Record<string, [NonNullable<TestX402Options["limits"]>, (seen: Pressure) => boolean]> = {
  "queue depth": [{ queueDepthMax: 1 }, ({ depth }) => depth.waiting >= 1],
  "age of the oldest call": [{ oldestAgeMsMax: 1 }, ({ oldestAgeMs }) => oldestAgeMs > 1],
};

test.each(Object.entries(limits))(
  "over the limit of %s a payment is 503 before any facilitator is asked, and is taken once there is room",
  async (name, [limit, isOver]) => {
    const x402 = await fixture.gateway({ limits: limit });
    const pressureIs = (over: boolean) =>
      eventually("the gateway has looked", () => {
        const seen = x402.gateway.pressure();
        return seen !== undefined && isOver(seen) === over;
      });
    const [inQueue, v2] = [
      await x402.pay({ payer: fixture.payer }),
      await x402.pay({ payer: fixture.payer }),
    ];
    const v1 = await x402.payV1({ payer: fixture.payer });
    await pressureIs(false);
    expect((await x402.post(inQueue)).status).toBe(202);
    await pressureIs(true);

    await fixture.devnet.control.clearRequests();
    for (const headers of [v2, v1]) {
      const answer = await x402.post(headers);
      expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.overloaded"]);
      expect(answer.json()["detail"]).toContain(name);
      expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
      expect(answer.headers["payment-required"]).toBeUndefined();
    }
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    expect(await fixture.charged()).toEqual([PRICE]);

    const [call] = await x402.queue.getJobs(["wait"]);
    await x402.queue.remove(String(call?.id));
    await pressureIs(false);
    expect((await x402.post(v2)).status).toBe(202);
    expect(await fixture.charged()).toEqual([PRICE, PRICE]);
    await x402.queue.add("call", call?.data as never, { jobId: String(call?.id) });
  },
);
