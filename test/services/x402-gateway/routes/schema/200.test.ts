import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";
import { DECLARED, schemaOfBytes } from "../../job-inputs.ts";

const fixture = useX402();

test.each([1000, 60_000])(
  "a job's schema of %i bytes is told as it is in the configuration",
  async (bytes) => {
    const schema = schemaOfBytes(bytes);
    const x402 = await fixture.gateway({
      prices: { "7": { ...DECLARED, input_schema: schema, input_example: {} } },
    });
    const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/schema` });
    expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/schema+json"]);
    expect(answer.json()).toEqual(schema);
    expect(answer.headers["access-control-allow-origin"]).toBe("*");
    const head = await send(x402.address, { method: "HEAD", path: `${JOB_PATH}/schema` });
    expect([head.status, head.text]).toEqual([200, ""]);
  },
);
