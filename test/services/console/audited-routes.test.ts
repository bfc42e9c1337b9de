import { expect, test } from "vitest";
import { CONTRACT } from "../../../shared/console/contract/contract.ts";
import type { Operation } from "../../../shared/console/contract/operation.ts";
import { RejectedDetail } from "../../../shared/console/rejected.ts";
import { nameOf } from "../../../shared/http/router.ts";
import { ACTIONS } from "../../../shared/redis/audit/actions.ts";

const ROUTES: readonly Operation[] = Object.values(CONTRACT);

/** Whether a route changes something. */
const changes = ({ method, role }: Operation) => method !== "GET" || role === "operator";

/** Whether a route returns the body of a sender or the result of a runner. */
const givesBytes = ({ file, answer }: Operation) =>
  file === "application/octet-stream" || answer === RejectedDetail;

const unnamed = ({ audit = [] }: Operation) => audit.length === 0;

test("every route that changes something, or returns a body or a result, declares its audit lines", () => {
  const audited = ROUTES.filter((route) => changes(route) || givesBytes(route));
  expect(audited.filter(unnamed).map(nameOf)).toEqual([]);
  expect(audited.length).toBeGreaterThan(20);
});

test("any other route declares no audit line, so that lists and scrolling write nothing", () => {
  const others = ROUTES.filter((route) => !changes(route) && !givesBytes(route));
  expect(others.filter((route) => !unnamed(route)).map(nameOf)).toEqual([]);
});

test("a route that only reads declares only lines of reads, and each action that is not of a command belongs to a route", () => {
  const streamsOf = ({ audit = [] }: Operation) => audit.map((action) => ACTIONS[action].stream);
  for (const route of ROUTES)
    expect([nameOf(route), streamsOf(route).includes("reads")]).toEqual([nameOf(route), givesBytes(route)]);
  const named = new Set(ROUTES.flatMap(({ audit = [] }) => audit));
  const actionsOfCommands = Object.keys(ACTIONS).filter((action) => !named.has(action as never));
  expect(actionsOfCommands).toEqual(["open", "remove_node", "adopt"]);
});
