/** Resolves with the name of the first SIGTERM or SIGINT; the second one ends the process at once with exit code 1. */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let seen = false;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (seen) process.exit(1);
      seen = true;
      resolve(signal);
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
  });
}
