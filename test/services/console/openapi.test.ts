import { expect, test } from "vitest";
import { CONTRACT } from "../../../shared/console/contract/contract.ts";
import type { Operation } from "../../../shared/console/contract/operation.ts";
import { useOperator } from "../../fixtures/console.ts";
import { openApi } from "../../support/openapi.ts";

/* That each answer which a test gets is as the document says, holds the fixture. */

const ROUTES: readonly Operation[] = Object.values(CONTRACT);

const fixture = useOperator();

/** What stands for a parameter of a path. Nothing has such a name. */
const SAMPLES: Readonly<Record<string, string>> = {
  call_id: `c_${"0".repeat(32)}`,
  run_id: `run_${"0".repeat(32)}`,
  export_id: `r_${"0".repeat(32)}`,
  rejected_id: "r_0000",
  job: "7/1",
};

test("the document has every route, each with a summary, an id of its own and its answers", () => {
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

test("each reference in the document leads to a component, and each component has something that refers to it", () => {
  const referred = new Set(JSON.stringify(openApi).match(/#\/components\/schemas\/\w+/g) ?? []);
  const there = Object.keys(openApi.components.schemas).map((name) => `#/components/schemas/${name}`);
  expect([...referred].toSorted()).toEqual(there.toSorted());
});

/** Its answer does not end. */
const isStream = ({ stream }: Operation) => stream !== undefined;

test.each(
  ROUTES.filter((route) => !isStream(route)).map(
    (route) => [`${route.method} ${route.path}`, route] as const,
  ),
)(
  "%s answers an operator, a viewer and a stranger as the document says",
  async (_, { method, path, body }) => {
    const { ask } = await fixture.start();
    const url = path.replace(/\{(\w+)\+?\}/g, (_all, name: string) => SAMPLES[name] ?? "none");
    expect(url).not.toContain("none");
    for (const as of ["operator", "viewer", "nobody"] as const) {
      const answer = await ask(method, url, { as, ...(body !== undefined && { json: {} }) });
      expect(answer.status).toBeLessThan(501);
    }
  },
);
