import { describe, expect, test } from "vitest";
import { useOperator } from "../../../fixtures/console.ts";

const fixture = useOperator();

describe("200", () => {
  test("the document needs no authentication, names its version, and derives the parameters of lists from their schemas", async () => {
    const { get } = await fixture.start();
    const answer = await get("/openapi.json", { as: "nobody" });
    expect(answer.status).toBe(200);
    const { openapi, info, paths } = answer.json<{
      openapi: string;
      info: { version: string };
      paths: Record<string, Record<string, { parameters: { name: string; schema: unknown }[] }>>;
    }>();
    expect([openapi, info.version]).toEqual(["3.1.0", expect.stringMatching(/^\d+\.\d+\.\d+/)]);
    const parameters = paths["/api/v1/failed"]?.["get"]?.parameters ?? [];
    expect(parameters.find(({ name }) => name === "limit")?.schema).toEqual({
      ...{ type: "integer", format: "int64", minimum: 1, maximum: 500, default: 50 },
    });
  });
});
