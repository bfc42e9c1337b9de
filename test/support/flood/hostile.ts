// Attacks a server over many connections, until a stop signal. Usage: node … PLAN
import { constants, setPriority } from "node:os";
import { createAttack } from "./attacks.ts";
import { keepAsking } from "./hostile-client.ts";
import { type HostileFigures, type HostilePlan, printEvent, readPlan } from "./plans.ts";

// A lower priority simulates an attacker on another machine, whose CPU time does not slow honest clients.
setPriority(constants.priority.PRIORITY_BELOW_NORMAL);

const plan = readPlan<HostilePlan>();
const { address, connections, from, forwardedFor } = plan;
const next = createAttack[plan.attack](plan);
const statuses: Record<string, number> = {};
let answered = 0;
let cut = 0;
let opened = 0;
let startedAt = performance.now();

for (let i = 0; i < connections; i++) {
  const proxied =
    forwardedFor === undefined ? "" : `X-Forwarded-For: ${forwardedFor[i % forwardedFor.length]}\r\n`;
  keepAsking({
    address,
    from: from[i % from.length] as string,
    next: () => next(i, proxied),
    onOpen() {
      opened += 1;
      if (opened < connections) return;
      startedAt = performance.now();
      answered = 0;
      printEvent("hostile.started");
    },
    onAnswer(status) {
      answered += 1;
      statuses[status] = (statuses[status] ?? 0) + 1;
    },
    onCut() {
      cut += 1;
    },
  });
}

process.once("SIGTERM", () => {
  const figures: HostileFigures = { answered, ms: performance.now() - startedAt, statuses, cut };
  printEvent("hostile.ended", figures);
  process.exit(0);
});
