// The search reads a word before a colon as the name of a field, and a dash before a word as "without".
// A pasted error has both: it is searched for its words alone.
const post = Worker.prototype.postMessage
Worker.prototype.postMessage = function (message) {
  const isQuery = typeof message.data === "string"
  return post.call(this, isQuery ? {...message, data: message.data.replace(/[:^~*+-]+/g, " ")} : message)
}
