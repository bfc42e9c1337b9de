import type { Redis } from "ioredis";

/** Returns a connection that awaits `before` in front of each script. The first script has the number 1. */
export function beforeEachScript(client: Redis, before: (sent: number) => Promise<void>): Redis {
  let sent = 0;
  return new Proxy(client, {
    get(target, name, receiver) {
      const value = Reflect.get(target, name, receiver) as unknown;
      if (typeof value !== "function") return value;
      return async (...args: unknown[]) => {
        if (args[0] === "EVALSHA") {
          sent += 1;
          await before(sent);
        }
        return value.apply(target, args);
      };
    },
  });
}
