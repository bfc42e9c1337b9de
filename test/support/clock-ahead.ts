/**
 * Returns the environment of a process whose clock is ahead of this machine's by `ms`, or behind it if `ms` is
 * negative.
 */
export function clockAhead(ms: number): NodeJS.ProcessEnv {
  const preload = `
    const Machines = Date;
    globalThis.Date = class Date extends Machines {
      static now() { return Machines.now() + ${ms}; }
      constructor(...args) { super(...(args.length === 0 ? [Date.now()] : args)); }
    };`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}` };
}
