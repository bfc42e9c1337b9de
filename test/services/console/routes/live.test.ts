import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { refusalOf, TOKENS, useOperator } from "../../../fixtures/console.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { readStream } from "../../../support/event-source.ts";

const fixture = useOperator();

describe("400", () => {
  test("a stream with an unknown span, job or parameter gets 400", async () => {
    const { get } = await fixture.start();
    for (const query of ["flow=2h", "job=echo", "jobs=yes", "payments=true"])
      expect([query, ...refusalOf(await get(`/api/v1/live?${query}`))]).toEqual([
        ...[query, 400, "request.malformed"],
      ]);
  });
});

describe("429", () => {
  const ends = useEnds();

  test("one name may have 16 streams at a replica: the next one gets a time to retry, and other names are not refused", async () => {
    const service = await fixture.start();
    const follow = async (token: string) => {
      const stream = await readStream(`http://${service.address}/api/v1/live`, { token });
      ends.defer(stream.close);
      return stream;
    };
    const streams = await Promise.all(Array.from({ length: 16 }, () => follow(TOKENS.viewer)));
    const refused = await service.get("/api/v1/live", { as: "viewer" });
    expect([...refusalOf(refused), refused.headers["retry-after"]]).toEqual([
      ...[429, "request.rate_limited", "10"],
    ]);
    expect((await follow(TOKENS.operator)).status).toBe(200);
    streams[0]?.close();
    await eventually("a place is free", async () => (await follow(TOKENS.viewer)).status === 200);
  });
});
