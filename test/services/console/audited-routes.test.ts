import { expect, test } from "vitest";
import { CONTRACT } from "../../../shared/console/contract/contract.ts";
import type { Operation } from "../../../shared/console/contract/operation.ts";
import { RejectedDetail } from "../../../shared/console/rejected.ts";
import { nameOf } from "../../../shared/http/router.ts";
import { ACTIONS } from "../../../shared/redis/audit/actions.ts";

const ROUTES: readonly Operation[] = Object.values(CONTRACT);

/** Whether a route changes something. */
const changes = ({ method, role }: Operation) => method !== "GET" || role === "operator";

/** Whether a route gives out the body of a sender or the result of a runner. */
const givesBytes = ({ file, answer }: Operation) =>
  file === "application/octet-stream" || answer === RejectedDetail;

const unnamed = ({ audit = [] }: Operation) => audit.length === 0;

test("every route that changes something, or gives out a body or a result, names its lines of the audit", () => {
  const audited = ROUTES.filter((route) => changes(route) || givesBytes(route));
  expect(audited.filter(unnamed).map(nameOf)).toEqual([]);
  expect(audited.length).toBeGreaterThan(20);
});

test("a route that does neither leaves no line, so that lists and scrolling write nothing", () => {
  const others = ROUTES.filter((route) => !changes(route) && !givesBytes(route));
  expect(others.filter((route) => !unnamed(route)).map(nameOf)).toEqual([]);
});

test("a route that only reads leaves lines of reads alone, and each action but those of commands alone is some route's", () => {
  const streamsOf = ({ audit = [] }: Operation) => audit.map((action) => ACTIONS[action].stream);
  for (const route of ROUTES)
    expect([nameOf(route), streamsOf(route).includes("reads")]).toEqual([nameOf(route), givesBytes(route)]);
  const named = new Set(ROUTES.flatMap(({ audit = [] }) => audit));
  const commandsAlone = Object.keys(ACTIONS).filter((action) => !named.has(action as never));
  expect(commandsAlone).toEqual(["open", "remove_node", "adopt"]);
});
