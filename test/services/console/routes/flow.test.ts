import { describe, expect, test } from "vitest";
import { FlowView } from "../../../../shared/console/overview/flow.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useReports } from "../../../fixtures/reports.ts";

const fixture = useOperator();

describe("200", () => {
  const reports = useReports(fixture.redis);

  test("the flow has numbers for each minute of an hour or each five minutes of a day, also of one job", async () => {
    const { log, flush } = await reports.start();
    const injected = { origin: "webhook", serviceId: 7, jobId: 1, callId: "c_1", attempt: 1, injectMs: 1 };
    log.info("call.injected", { ...injected, endToEndMs: 40 });
    await flush();
    const { get } = await fixture.start();
    const read = async (query: string) => {
      const answer = await get(`/api/v1/flow${query}`, { as: "viewer" });
      const { lines, jobs, step_ms } = FlowView.parse(answer.json());
      return [step_ms, lines[0]?.injected.length, jobs.map(({ job }) => job)];
    };
    expect(await read("")).toEqual([60_000, 60, ["7/1"]]);
    expect(await read("?span=24h")).toEqual([300_000, 288, ["7/1"]]);
    expect(await read("?span=24h&job=7/2")).toEqual([300_000, 288, []]);
  });
});

describe("400", () => {
  test.each(["?span=2h", "?job=7", "?job=07/1", "?origin=webhook"])(
    "a flow of %s is refused",
    async (query) => {
      const { get } = await fixture.start();
      expect(refusalOf(await get(`/api/v1/flow${query}`))).toEqual([400, "request.malformed"]);
    },
  );
});
