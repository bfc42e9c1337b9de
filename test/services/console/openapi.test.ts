import { beforeAll, describe, expect, test } from "vitest";
import { CONTRACT } from "../../../shared/console/contract/contract.ts";
import type { Operation } from "../../../shared/console/contract/operation.ts";
import { type TestOperator, TOKENS, useOperator } from "../../fixtures/console.ts";
import { openApi } from "../../support/openapi.ts";

/* The fixture checks that each answer in a test matches the document. */

const ROUTES: readonly Operation[] = Object.values(CONTRACT);

const fixture = useOperator();

/** Values for the parameters of a path. Nothing has such a name. */
const SAMPLES: Readonly<Record<string, string>> = {
  call_id: `c_${"0".repeat(32)}`,
  run_id: `run_${"0".repeat(32)}`,
  export_id: `r_${"0".repeat(32)}`,
  rejected_id: "r_0000",
  job: "7/1",
};

test("the document has every route, with a summary, a unique id and its answers", () => {
  const documented = Object.entries(openApi.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(documented.toSorted()).toEqual(
    ROUTES.map(({ method, path }) => `${method} ${path.replace("+}", "}")}`).toSorted(),
  );
  const operations = Object.values(openApi.paths).flatMap((each) => Object.values(each));
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(ROUTES.length);
  for (const { responses } of operations) {
    const good = Object.keys(responses).filter((status) => status.startsWith("2"));
    expect([good.length, Object.keys(responses).length > 1]).toEqual([1, true]);
  }
});

test("each reference in the document leads to a component, and each component is referred to", () => {
  const referred = new Set(JSON.stringify(openApi).match(/#\/components\/schemas\/\w+/g) ?? []);
  const there = Object.keys(openApi.components.schemas).map((name) => `#/components/schemas/${name}`);
  expect([...referred].toSorted()).toEqual(there.toSorted());
});

/** Yields every schema of the document that is an object, with its place. */
function* schemasIn(value: unknown, at = ""): Generator<[at: string, schema: Record<string, unknown>]> {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield [at, value as Record<string, unknown>];
  for (const [name, each] of Object.entries(value)) yield* schemasIn(each, `${at}/${name}`);
}
const SCHEMAS = [...schemasIn(openApi)];

test("every number in the document is an integer of 64 bits", () => {
  const types = SCHEMAS.filter(([, { type }]) => type === "number" || type === "integer");
  expect(types.length).toBeGreaterThan(0);
  expect(types.filter(([, { type, format }]) => type !== "integer" || format !== "int64")).toEqual([]);
});

test("every field with a name of a time is in ISO 8601", () => {
  const members = SCHEMAS.flatMap(([at, { properties }]) =>
    Object.entries((properties ?? {}) as Record<string, unknown>).map(
      ([name, schema]) => [`${at}/${name}`, JSON.stringify(schema)] as const,
    ),
  ).filter(([at]) => /(?:\/|_)(?:at|since|until|valid_after|valid_before|throttled_until)$/.test(at));
  expect(members.length).toBeGreaterThan(20);
  expect(members.filter(([, schema]) => !schema.includes('"format":"date-time"'))).toEqual([]);
});

test("no schema has a generated name, and no two objects outside the components are equal", () => {
  expect(Object.keys(openApi.components.schemas).filter((name) => name.startsWith("_"))).toEqual([]);
  const objects = SCHEMAS.filter(([, { type, properties }]) => type === "object" && properties !== undefined);
  const texts = objects.map(([, schema]) => JSON.stringify(schema));
  expect(objects.filter((_, i) => texts.indexOf(texts[i] as string) !== i).map(([at]) => at)).toEqual([]);
});

test("a union in the document names the field that distinguishes its schemas", () => {
  const unions = SCHEMAS.filter(([, { oneOf }]) => oneOf !== undefined);
  expect(unions.map(([at]) => at.split("/").at(-1)).toSorted()).toEqual(["Bulk", "Decision"]);
  expect(openApi.components.schemas["Decision"]).toMatchObject({
    discriminator: {
      propertyName: "verdict",
      mapping: { settled: "#/components/schemas/SettledDecision" },
    },
  });
  expect(openApi.components.schemas["Bulk"]).toMatchObject({
    discriminator: {
      propertyName: "kind",
      mapping: { replay: "#/components/schemas/FailedBulk", discard: "#/components/schemas/FailedBulk" },
    },
  });
});

test("each operation has one tag that the document describes, and the document names its server", () => {
  const operations = Object.values(openApi.paths).flatMap((each) => Object.values(each));
  const used = new Set(operations.flatMap(({ tags }) => tags));
  expect(operations.every(({ tags }) => tags.length === 1)).toBe(true);
  expect([...used].toSorted()).toEqual(openApi.tags.map(({ name }) => name).toSorted());
  expect(openApi.servers).toMatchObject([{ url: "/" }]);
});

test("the document has the answers that any operation may give, and says that the API may still be starting", () => {
  for (const [path, operations] of Object.entries(openApi.paths))
    for (const { responses } of Object.values(operations)) {
      expect(Object.keys(responses)).toEqual(expect.arrayContaining(["408", "417", "431", "501"]));
      const says = responses["503"]?.description.includes("service.starting");
      expect([path, says]).toEqual([path, path.startsWith("/api/")]);
    }
});

test("filters by a code, a payer or a job have a pattern, and a stream is marked as one", () => {
  const parametersOf = (path: string) => openApi.paths[path]?.["get"]?.parameters ?? [];
  const patternOf = (path: string, name: string) =>
    parametersOf(path).find((each) => each.name === name)?.schema["pattern"] as string;
  const matches = (path: string, name: string, text: string) =>
    new RegExp(patternOf(path, name), "u").test(text);
  expect(matches("/api/v1/failed", "code", "runner.throttled")).toBe(true);
  expect(matches("/api/v1/failed", "code", "no code")).toBe(false);
  expect(matches("/api/v1/payments", "payer", `0x${"aB".repeat(20)}`)).toBe(true);
  expect(matches("/api/v1/payments", "payer", "0xab")).toBe(false);
  expect(matches("/api/v1/calls", "job", "7/1")).toBe(true);
  expect(matches("/api/v1/calls", "job", "7")).toBe(false);
  expect(matches("/api/v1/jobs/{job}", "job", "callback/hooks.example.com")).toBe(true);
  expect(matches("/api/v1/jobs/{job}", "job", "07/1")).toBe(false);
  const live = openApi.paths["/api/v1/live"]?.["get"];
  expect(live).toMatchObject({ "x-postern-stream": true });
  expect(live?.responses["200"]?.content?.["text/event-stream"]?.schema).toEqual({ type: "string" });
});

test("a generated client gets a text file as text, and any other file as bytes", () => {
  const schemaAt = (path: string) =>
    Object.values(openApi.paths[path]?.["get"]?.responses["200"]?.content ?? {});
  expect(schemaAt("/api/v1/payments/refunds/report")).toEqual([{ schema: { type: "string" } }]);
  expect(schemaAt("/api/v1/calls/{call_id}/body")).toEqual([
    { schema: { type: "string", format: "binary" } },
  ]);
});

test("the document names the cookie that a sign-in sets", async () => {
  for (const [operator, name] of [
    [{}, "postern"],
    [{ public_url: "https://console.example.com" }, "__Host-postern"],
  ] as const) {
    const { get, post } = await fixture.start({ operator });
    const headers = operator.public_url === undefined ? {} : { Host: "console.example.com" };
    const document = (await get("/openapi.json", { headers })).json<typeof openApi>();
    expect(document.components.securitySchemes.session.name).toBe(name);
    const signedIn = await post("/session", { token: TOKENS.viewer }, { as: "nobody", headers });
    expect(String(signedIn.headers["set-cookie"])).toMatch(new RegExp(`^${name}=`));
  }
});

test("the document has the answers that the server gives before any route is found", async () => {
  const { get } = await fixture.start();
  const path = "/api/v1/jobs";
  expect((await get(path, { headers: { Expect: "200-ok" } })).status).toBe(417);
  expect((await get(path, { headers: { "X-Much": "x".repeat(20_000) } })).status).toBe(431);
  expect((await get(path, { headers: { "Transfer-Encoding": "gzip, chunked" } })).status).toBe(501);
});

test("the document has the answer of a console that has not reached Redis yet", async () => {
  const { get } = await fixture.start({ redisUrl: "redis://127.0.0.1:1", early: true });
  const answer = await get("/api/v1/jobs");
  expect([answer.status, answer.json()["code"]]).toEqual([503, "service.starting"]);
});

test("a client may encode the complete name of a job in the path", async () => {
  const { get, post } = await fixture.start();
  await post("/api/v1/jobs/7/1/pause", { reason: "x" });
  expect((await get("/api/v1/jobs/7%2F1")).json()).toMatchObject({ job: "7/1", state: "paused" });
  const resumed = await post("/api/v1/jobs/7%2F1/resume", { reason: "x" });
  expect(resumed.json()).toMatchObject({ changed: true, job: { job: "7/1" } });
  expect((await get("/api/v1/jobs/%37%2F1")).status).toBe(404);
});

describe("each route", () => {
  let service: TestOperator;
  beforeAll(async () => {
    service = await fixture.start();
  });

  /** A stream's answer does not end. */
  const isStream = ({ stream }: Operation) => stream !== undefined;

  test.each(
    ROUTES.filter((route) => !isStream(route)).map(
      (route) => [`${route.method} ${route.path}`, route] as const,
    ),
  )(
    "%s answers an operator, a viewer and a client without a token as the document says",
    async (_, { method, path, body }) => {
      const url = path.replace(/\{(\w+)\+?\}/g, (_all, name: string) => SAMPLES[name] ?? "none");
      expect(url).not.toContain("none");
      for (const as of ["operator", "viewer", "nobody"] as const) {
        const answer = await service.ask(method, url, { as, ...(body !== undefined && { json: {} }) });
        expect(answer.status).toBeLessThan(501);
      }
    },
  );
});
