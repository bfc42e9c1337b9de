import { describe, expect, test } from "vitest";
import { PUBLIC_URL, type TestX402, useX402 } from "../../../fixtures/x402.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { DECLARED, ORDER, PRINTED, schemaOfBytes } from "../job-inputs.ts";
import { rateless } from "../rateless.ts";
import { twoTokens } from "../two-tokens.ts";

const fixture = useX402();

describe("200", () => {
  type Listed = { job_index: number; name?: string; settlement_options: object[] };
  type List = { jobs: Listed[]; next?: string };

  const list = async ({ address }: TestX402, path = "/x402") => {
    const answer = await send(address, { method: "GET", path });
    expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/json"]);
    return answer.json<List>();
  };

  test("the list has each job for sale, in the order of the file, with its price, its description and its schema", async () => {
    const job_policies = [{ service_id: 1, job_index: 8, invocation_mode: "disabled" }];
    const x402 = await fixture.gateway({
      x402: { ...twoTokens(fixture.devnet), job_policies },
      prices: {
        "6": "1000000000000000",
        "7": DECLARED,
        "8": "1000000000000000",
        "9": { ...DECLARED, name: "large", input_schema: schemaOfBytes(2559), input_example: {} },
        "10": { price_wei: "1000000000000000", ...PRINTED },
      },
      early: true,
    });
    const price = await send(x402.address, { method: "GET", path: "/x402/jobs/1/7/price" });
    const { jobs, ...more } = await list(x402);
    expect(more).toEqual({});
    expect(jobs.map(({ job_index }) => job_index)).toEqual([6, 7, 9, 10]);
    const url = `${PUBLIC_URL}/x402/jobs/1/7`;
    expect(jobs[1]).toEqual({
      ...price.json(),
      ...{ name: "order", description: "Takes an order" },
      ...{ url, price_url: `${url}/price`, schema_url: `${url}/schema` },
      ...{ input_schema: ORDER, input_example: DECLARED.input_example },
    });
    expect(Object.keys(jobs[0] ?? {})).not.toEqual(expect.arrayContaining(["name"]));
    expect(jobs[0]).not.toHaveProperty("schema_url");
    expect(jobs[2]).toHaveProperty("schema_url");
    expect(jobs[2]).not.toHaveProperty("input_schema");
    expect(jobs[3]).toMatchObject(PRINTED);
  });

  test("a job without a current rate is listed without settlement options", async () => {
    const { jobs } = await list(await fixture.gateway({ token: rateless }));
    expect(jobs.map(({ settlement_options }) => settlement_options)).toEqual([[]]);
  });

  onlyInLongRun(() => {
    test("the list has a hundred jobs a page, and each page but the last names the next one", async () => {
      const indices = Array.from({ length: 250 }, (_, i) => i);
      const prices = Object.fromEntries(indices.map((i) => [String(i), "1000000000000000"]));
      const x402 = await fixture.gateway({ prices });
      const seen: number[] = [];
      let next: string | undefined = `${PUBLIC_URL}/x402`;
      while (next !== undefined) {
        const page: List = await list(x402, next.slice(PUBLIC_URL.length));
        expect(page.jobs.length).toBeLessThanOrEqual(100);
        seen.push(...page.jobs.map(({ job_index }) => job_index));
        ({ next } = page);
      }
      expect(seen).toEqual(indices);
    });
  });

  test("a gateway that sells nothing has an empty list", async () => {
    expect(await list(await fixture.gateway({ prices: {}, early: true }))).toEqual({ jobs: [] });
  });

  test("the list answers HEAD without a body, and a web page of any origin may read it", async () => {
    const x402 = await fixture.gateway();
    const head = await send(x402.address, { method: "HEAD", path: "/x402" });
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(head.headers["access-control-allow-origin"]).toBe("*");
    const options = await send(x402.address, { method: "OPTIONS", path: "/x402" });
    expect(options.status).toBe(204);
  });
});

describe("404", () => {
  test.each(
    sample(["page=2", "page=0", "page=-1", "page=01", "page=x", "page=", `page=${"9".repeat(400)}`], 2),
  )(
    "a page of the list that does not exist (%s) is 404, and the answer says how many there are",
    async (query) => {
      const x402 = await fixture.gateway();
      const answer = await send(x402.address, { method: "GET", path: `/x402?${query}` });
      expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
      expect(answer.json()["detail"]).toBe("page must be a number from 1 to 1");
    },
  );

  test.each(sample(["/x402/", "/X402", "/x402/jobs"]))(
    "the path %s is 404, and not the list",
    async (path) => {
      const x402 = await fixture.gateway();
      expect((await send(x402.address, { method: "GET", path })).status).toBe(404);
    },
  );
});

describe("405", () => {
  test("POST to the list is 405, and allows GET, HEAD and OPTIONS", async () => {
    const x402 = await fixture.gateway();
    const answer = await send(x402.address, { path: "/x402" });
    expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"]);
  });
});
