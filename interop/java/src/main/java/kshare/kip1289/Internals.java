package kshare.kip1289;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Private parts of kafka-clients 4.4.0. Another version may have others, and then says so by an IllegalStateException. */
public final class Internals {
    private Internals() { }

    /** The value of a field, as the class has it that declares it. */
    @SuppressWarnings("unchecked")
    public static <T> T get(Class<?> owner, Object of, String field) {
        try {
            Field f = owner.getDeclaredField(field);
            f.setAccessible(true);
            return (T) f.get(of);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(owner + " has no field " + field + ": this is not kafka-clients 4.4.0", e);
        }
    }

    /** Calls a method of one argument. */
    static <A> void call(Object on, String method, Class<? super A> type, A argument) {
        try {
            Method m = on.getClass().getDeclaredMethod(method, type);
            m.setAccessible(true);
            m.invoke(on, argument);
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(on.getClass() + " has no method " + method + ": this is not kafka-clients 4.4.0", e);
        }
    }
}
