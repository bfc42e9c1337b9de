import { createRequire } from "node:module";
import { z } from "zod";
import { toOpenApi } from "../openapi.ts";
import { type Route, route } from "../route.ts";

/** Found by the package's own name, so from the sources and from dist/ alike. */
const { version } = createRequire(import.meta.url)("postern/package.json") as { version: string };

/** What all the routes say of themselves, this one too. */
export function openApiRoute(routes: () => readonly Route[]): Route {
  let document: unknown;
  return route({
    method: "GET",
    path: "/openapi.json",
    access: "anybody",
    summary: "Get this document",
    answers: {
      200: {
        description: "This API as OpenAPI 3.1.",
        schema: z.looseObject({ openapi: z.literal("3.1.0"), paths: z.looseObject({}) }),
      },
    },
    async answer() {
      document ??= toOpenApi(routes(), version);
      return { status: 200, json: document };
    },
  });
}
