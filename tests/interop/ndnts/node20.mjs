// What NDNts needs of later versions of Node.js, for Node.js 20. Import it first.

Promise.withResolvers ??= function withResolvers() {
  let resolve;
  let reject;
  const promise = new Promise((resolvePromise, rejectPromise) => {
    resolve = resolvePromise;
    reject = rejectPromise;
  });
  return { promise, resolve, reject };
};
